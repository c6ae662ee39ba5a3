//! The live view on a terminal. Whatever happens, the terminal is as before when the program has ended.

use super::draw::{Surroundings, draw};
use super::model::{Flow, Key, Model};
use super::sample::Sample;
use super::sampler::Sampler;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::emulate_default_handler;
use std::io::{self, stdout};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, panic};

/// Longest time without a look at signals and samples.
const TICK: Duration = Duration::from_millis(100);

/// Shows the switch at `socket` until the user leaves, a signal says so, or `count` intervals have passed.
pub(super) fn run(socket: &Path, first: Sample, interval: Duration, count: Option<u64>) -> io::Result<()> {
    let signal = signals()?;
    let taken = interact(socket, first, interval, count, &signal);
    // The terminal is restored; now the signal does what it is for.
    match signal.load(Ordering::Relaxed) {
        0 => taken,
        signal => emulate_default_handler(signal as i32),
    }
}

/// Returns where the number of a signal that ends programs appears.
fn signals() -> io::Result<Arc<AtomicUsize>> {
    let received = Arc::new(AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_usize(signal, received.clone(), signal as usize)?;
    }
    Ok(received)
}

fn interact(
    socket: &Path,
    first: Sample,
    interval: Duration,
    count: Option<u64>,
    signal: &AtomicUsize,
) -> io::Result<()> {
    let mut around = Surroundings {
        socket: socket.display().to_string(),
        interval,
        // https://no-color.org: set, and not empty.
        has_colour: env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        now: Instant::now(),
    };
    let mut model = Model::new(first);
    let sampler = Sampler::start(socket, interval)?;
    let _raw = RawScreen::enter()?;
    let mut terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
    let mut intervals = 0;
    while signal.load(Ordering::Relaxed) == 0 && count.is_none_or(|count| intervals < count) {
        around.now = Instant::now();
        terminal.draw(|frame| draw(frame, &model, &around))?;
        if event::poll(TICK)?
            && let Some(key) = key(&event::read()?)
            && model.press(key) == Flow::Leave
        {
            break;
        }
        while let Some(outcome) = sampler.next()? {
            model.accept(outcome.map_err(|error| error.to_string()));
            intervals += 1;
        }
    }
    Ok(())
}

/// Returns the key that was pressed, if the event is one that matters.
fn key(event: &Event) -> Option<Key> {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else { return None };
    let with_control = modifiers.contains(KeyModifiers::CONTROL);
    Some(match code {
        KeyCode::Char('c') if with_control => Key::Interrupt,
        KeyCode::Char(_) if with_control => return None,
        KeyCode::Char(letter) => Key::Char(*letter),
        KeyCode::Left | KeyCode::BackTab => Key::Left,
        KeyCode::Right | KeyCode::Tab => Key::Right,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
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
    fn keys_are_told_apart() {
        let pressed = |code, modifiers| key(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(pressed(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Interrupt));
        assert_eq!(pressed(KeyCode::Char('s'), KeyModifiers::CONTROL), None);
        assert_eq!(pressed(KeyCode::Char('?'), KeyModifiers::SHIFT), Some(Key::Char('?')));
        assert_eq!(pressed(KeyCode::BackTab, KeyModifiers::SHIFT), Some(Key::Left));
        assert_eq!(key(&Event::Resize(80, 24)), None);
    }

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
