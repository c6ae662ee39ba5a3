//! The live view on a terminal. The terminal is restored however the program ends.

use super::draw::{Surroundings, draw};
use super::keyboard::Keyboard;
use super::model::{Flow, Model};
use super::sample::Sample;
use super::sampler::Sampler;
use crate::terminal::wants_colours;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::io::{self, stdout};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use std::{panic, thread};

/// Time that a signal leaves for the last output, which a terminal without a reader never takes.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// Shows the switch at `socket` until the user leaves, or `count` intervals have passed.
pub(super) fn run(socket: &Path, first: Sample, interval: Duration, count: Option<u64>) -> io::Result<()> {
    let mut around = Surroundings {
        socket: socket.display().to_string(),
        interval,
        has_colour: wants_colours(),
        now: Instant::now(),
    };
    let mut model = Model::new(first);
    let sampler = Sampler::start(socket, interval)?;
    restore_at_signals()?;
    let _raw = RawScreen::enter()?;
    // Its drop panics if the terminal is gone. All else that it does is done by `RawScreen`.
    let mut terminal = ManuallyDrop::new(Terminal::new(CrosstermBackend::new(stdout()))?);
    let mut keyboard = Keyboard::default();
    let mut intervals = 0;
    while count.is_none_or(|count| intervals < count) {
        around.now = Instant::now();
        terminal.draw(|frame| draw(frame, &model, &around))?;
        if keyboard.wait()?.into_iter().any(|key| model.press(key) == Flow::Leave) {
            break;
        }
        while let Some(outcome) = sampler.next()? {
            model.accept(outcome.map_err(|error| error.to_string()));
            intervals += 1;
        }
    }
    Ok(())
}

/// A terminal that passes on each key, and shows a screen of ours; dropping it restores the terminal.
struct RawScreen;

impl RawScreen {
    fn enter() -> io::Result<RawScreen> {
        let before = panic::take_hook();
        // A release build ends in the hook: nothing is dropped.
        panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
        enable_raw_mode()?;
        let screen = RawScreen;
        execute!(stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }
}

impl Drop for RawScreen {
    fn drop(&mut self) {
        restore();
    }
}

/// Lets signals that end programs restore the terminal first. A thread does it, as the program may be stuck in the terminal.
fn restore_at_signals() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // This never waits, unlike all output to a terminal without a reader.
            let _ = disable_raw_mode();
            let (restored, is_restored) = channel();
            thread::spawn(move || {
                // Nothing is drawn any more.
                let _output = stdout().lock();
                restore();
                let _ = restored.send(());
            });
            let _ = is_restored.recv_timeout(LAST_OUTPUT);
            let _ = emulate_default_handler(signal);
        }
    })?;
    Ok(())
}

/// Restores the terminal. If that fails, there is none any more.
fn restore() {
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::terminal::Terminal;

    #[test]
    fn a_panic_restores_the_terminal() {
        let this = std::env::current_exe().unwrap();
        let name = "top::screen::tests::panics_on_the_screen";
        let terminal = Terminal::start(this, &["--exact", name, "--ignored", "--nocapture"], 80, 24);
        // `end` checks the terminal. 101: a test has failed.
        assert_eq!(terminal.end().code(), Some(101));
    }

    /// Not a test of its own: the one above runs it.
    #[test]
    #[ignore = "it panics on a terminal"]
    fn panics_on_the_screen() {
        // Nothing is dropped when a release build panics.
        std::mem::forget(RawScreen::enter().unwrap());
        panic!("on purpose");
    }
}
