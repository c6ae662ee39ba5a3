//! A terminal for tests, with a program on it: keys go in, and the screen is read.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Switches to a screen of the program's own, and back; shows the cursor.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
const SHOW_CURSOR: &str = "\x1b[?25h";

/// A terminal with a program on it; dropping it kills the program.
pub struct Terminal {
    master: File,
    slave: OwnedFd,
    before: Termios,
    pub child: Child,
    output: Arc<Mutex<Vec<u8>>>,
    is_closed: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Starts a program on a terminal of this size, which is its controlling terminal: the one that the tests
    /// run on is left alone.
    pub fn start(program: impl AsRef<OsStr>, arguments: &[&str], columns: u16, rows: u16) -> Terminal {
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program).args(arguments);
        Terminal::start_by(command, columns, rows)
    }

    /// Starts a program on a terminal from which it gets no signals.
    pub fn start_without_signals(program: impl AsRef<OsStr>, arguments: &[&str], columns: u16, rows: u16) -> Terminal {
        let mut command = Command::new("setsid");
        command.arg(program).args(arguments);
        Terminal::start_by(command, columns, rows)
    }

    fn start_by(mut command: Command, columns: u16, rows: u16) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let slave = ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        resize(&slave, columns, rows);
        let before = tcgetattr(&slave).unwrap();
        let end = || slave.try_clone().unwrap();
        command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm-256color").env_remove("NO_COLOR");
        let child = command.spawn().expect("setsid of util-linux");
        // It holds the program's end of the terminal.
        drop(command);
        let master = File::from(master);
        let (output, is_closed) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<AtomicBool>::default());
        let (copy, written, closed) = (master.try_clone().unwrap(), output.clone(), is_closed.clone());
        let reader = Some(thread::spawn(move || read(copy, &written, &closed)));
        Terminal { master, slave, before, child, output, is_closed, reader }
    }

    pub fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        resize(&self.slave, columns, rows);
    }

    /// Waits until the screen is as `is` says.
    pub fn wait_until(&mut self, what: &str, is: impl Fn(&[String]) -> bool) {
        self.wait(what, |terminal| is(&screen(&terminal.written())).then_some(()));
    }

    /// Waits until a line of the screen contains `text`.
    pub fn wait_for(&mut self, text: &str) {
        self.wait_until(text, |lines| lines.iter().any(|line| line.contains(text)));
    }

    /// Waits until the program has ended, and checks that the terminal is as it was before.
    pub fn end(mut self) -> ExitStatus {
        let status = self.wait("the end", |terminal| terminal.child.try_wait().unwrap());
        let after = tcgetattr(&self.slave).unwrap();
        assert_eq!(format!("{after:?}"), format!("{:?}", self.before), "modes of the terminal");
        self.wait("the screen from before", |terminal| {
            let written = terminal.written();
            let last = written.rsplit(ENTER).next().unwrap_or_default();
            (written.contains(ENTER) && last.contains(LEAVE) && last.contains(SHOW_CURSOR)).then_some(())
        });
        status
    }

    /// Closes the terminal, as a window or a connection is closed, and waits until the program has ended.
    pub fn hang_up(mut self) -> ExitStatus {
        self.is_closed.store(true, Ordering::Relaxed);
        self.reader.take().unwrap().join().unwrap();
        self.master = File::open("/dev/null").unwrap();
        self.wait("the end", |terminal| terminal.child.try_wait().unwrap())
    }

    /// Returns all that the program has written.
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap()).into_owned()
    }

    fn wait<T>(&mut self, what: &str, mut done: impl FnMut(&mut Terminal) -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            if let Some(found) = done(self) {
                return found;
            }
            let shown = screen(&self.written());
            assert!(Instant::now() < deadline, "waited in vain for {what}:\n{}", shown.join("\n"));
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.is_closed.store(true, Ordering::Relaxed);
    }
}

/// Reads the program's output, until the terminal is closed.
fn read(mut master: File, output: &Mutex<Vec<u8>>, is_closed: &AtomicBool) {
    let mut bytes = [0; 4096];
    while !is_closed.load(Ordering::Relaxed) {
        let tick = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        if matches!(poll(&mut [PollFd::new(&master, PollFlags::IN)], Some(&tick)), Ok(1..)) {
            let count = master.read(&mut bytes).unwrap_or(0);
            output.lock().unwrap().extend_from_slice(&bytes[..count]);
        }
    }
}

fn resize(terminal: &OwnedFd, columns: u16, rows: u16) {
    tcsetwinsize(terminal, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}

/// Returns the screen after all of this was written: its lines, without blanks at their ends. It knows how to move the
/// cursor and how to clear all; colours and modes don't change what is read.
fn screen(written: &str) -> Vec<String> {
    let mut cells = vec![vec![' '; 200]; 60];
    let (mut row, mut column) = (0, 0);
    let mut letters = written.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\x1b' => {
                if letters.next() != Some('[') {
                    continue;
                }
                let mut parameters = String::new();
                let end = letters.by_ref().find(|&letter| {
                    let is_end = ('@'..='~').contains(&letter);
                    if !is_end {
                        parameters.push(letter);
                    }
                    is_end
                });
                let mut numbers = parameters.split(';').map(|number| number.parse().unwrap_or(1_usize) - 1);
                match end {
                    Some('H') => (row, column) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)),
                    Some('J') => cells.iter_mut().for_each(|line| line.fill(' ')),
                    _ => {}
                }
            }
            '\r' => column = 0,
            '\n' => row += 1,
            letter => {
                if let Some(cell) = cells.get_mut(row).and_then(|line| line.get_mut(column)) {
                    *cell = letter;
                }
                column += 1;
            }
        }
    }
    cells.into_iter().map(|line| line.into_iter().collect::<String>().trim_end().to_owned()).collect()
}
