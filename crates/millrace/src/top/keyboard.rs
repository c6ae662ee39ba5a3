//! The keys of a terminal.
//!
//! crossterm could read them, too, but it never returns from a terminal that is gone, and loses keys that come together with
//! a change of the terminal's size.

use super::model::Key;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use std::io::{self, stdin};

/// Longest time without a return.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Begins what keys without a letter send (ECMA-48 §5.4, and as xterm does).
const ESCAPE: u8 = 0x1b;

/// Standard input, in raw mode.
#[derive(Debug, Default)]
pub(super) struct Keyboard {
    /// The start of a key, the rest of which has not come yet.
    pending: Vec<u8>,
}

impl Keyboard {
    /// Waits for a while, and returns the keys that were pressed. If the terminal is gone, that is like Ctrl-C.
    pub(super) fn wait(&mut self) -> io::Result<Vec<Key>> {
        let stdin = stdin();
        let mut bytes = [0; 256];
        let outcome = match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&TICK)) {
            Ok(0) => return Ok(Vec::new()),
            Ok(_) => read(&stdin, &mut bytes),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(0) | Err(Errno::IO) => Ok(vec![Key::Interrupt]),
            Ok(count) => Ok(self.keys(&bytes[..count])),
            // A signal, for example as the size has changed.
            Err(Errno::INTR | Errno::AGAIN) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the keys that sent `bytes`.
    fn keys(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.pending.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut rest = &self.pending[..];
        while let Some((key, length)) = first(rest) {
            keys.extend(key);
            rest = &rest[length..];
        }
        self.pending = rest.to_vec();
        keys
    }
}

/// Returns the first key of `bytes`, if it means something here, and its length; `None` if the rest of it is missing.
fn first(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    match bytes {
        [] => None,
        [ESCAPE, b'[', rest @ ..] => {
            let last = rest.iter().position(|byte| (b'@'..=b'~').contains(byte) || byte.is_ascii_control())?;
            // A control character is a key of its own: the sequence before it is not finished.
            if rest[last].is_ascii_control() {
                Some((None, last + 2))
            } else {
                Some((sequence(&rest[..=last]), last + 3))
            }
        }
        [ESCAPE, b'O', rest @ ..] => Some((sequence(rest.get(..1)?), 3)),
        [byte, ..] if byte.is_ascii() => Some((single(*byte), 1)),
        _ => letter(bytes),
    }
}

/// Returns the key that sent a sequence, here without its introducer.
fn sequence(bytes: &[u8]) -> Option<Key> {
    Some(match bytes {
        b"A" => Key::Up,
        b"B" => Key::Down,
        b"C" => Key::Right,
        b"D" | b"Z" => Key::Left,
        b"H" | b"1~" | b"7~" => Key::Home,
        b"F" | b"4~" | b"8~" => Key::End,
        b"5~" => Key::PageUp,
        b"6~" => Key::PageDown,
        _ => return None,
    })
}

fn single(byte: u8) -> Option<Key> {
    Some(match byte {
        0x03 => Key::Interrupt,
        b'\t' => Key::Right,
        b'\r' | b'\n' => Key::Enter,
        0x08 | 0x7f => Key::Backspace,
        ESCAPE => Key::Escape,
        _ if byte.is_ascii_control() => return None,
        _ => Key::Char(byte.into()),
    })
}

/// Returns a letter beyond ASCII; bytes that are none are passed over.
fn letter(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    // UTF-8 has at most four bytes a letter.
    let start = &bytes[..bytes.len().min(4)];
    let chunk = start.utf8_chunks().next()?;
    match chunk.valid().chars().next() {
        Some(letter) => Some((Some(Key::Char(letter)), letter.len_utf8())),
        None if std::str::from_utf8(start).is_err_and(|error| error.error_len().is_none()) => None,
        None => Some((None, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        Keyboard::default().keys(bytes)
    }

    #[test]
    fn keys_are_told_apart() {
        use Key::{Backspace, Char, Down, End, Enter, Escape, Home, Interrupt, Left, PageDown, PageUp, Right, Up};
        assert_eq!(keys(b"q?\x03\r\x7f"), [Char('q'), Char('?'), Interrupt, Enter, Backspace]);
        assert_eq!(keys(b"\x1b[A\x1b[B\x1b[C\x1b[D\t\x1b[Z"), [Up, Down, Right, Left, Right, Left]);
        assert_eq!(keys(b"\x1bOA\x1bOH\x1b[F\x1b[5~\x1b[6~\x1b[1~"), [Up, Home, End, PageUp, PageDown, Home]);
        assert_eq!(keys(b"\x1b"), [Escape]);
        assert_eq!(keys(b"\x1b[\x03q"), [Interrupt, Char('q')], "no sequence keeps Ctrl-C");
        assert_eq!(keys("é→".as_bytes()), [Char('é'), Char('→')]);
    }

    #[test]
    fn unknown_keys_are_skipped() {
        assert_eq!(keys(b"\x13\x1b[15~\x1b[1;5Cx\xff\xc3x"), [Key::Char('x'), Key::Char('x')]);
    }

    #[test]
    fn a_key_may_come_in_two_parts() {
        let mut keyboard = Keyboard::default();
        assert_eq!(keyboard.keys(b"a\x1b["), [Key::Char('a')]);
        assert_eq!(keyboard.keys(b"5"), []);
        assert_eq!(keyboard.keys(b"~\xc3"), [Key::PageUp]);
        assert_eq!(keyboard.keys(b"\xa9"), [Key::Char('é')]);
    }
}
