//! The captured output of a process: a bounded buffer of lines.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// More lines than a test looks back at, but few enough to keep.
const CAPACITY: usize = 20_000;

/// A stream of a process's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

#[derive(Debug)]
struct Line {
    stream: Stream,
    text: String,
}

#[derive(Debug, Default)]
struct Lines {
    kept: VecDeque<Line>,
    /// Number of lines dropped before the first kept one.
    dropped: usize,
    /// Bytes of each stream after its last newline, such as a prompt.
    partial: [Vec<u8>; 2],
    /// Streams that are not at their end.
    open: usize,
}

/// The lines written by a process, standard output and standard error together.
#[derive(Debug, Default)]
pub struct Log {
    lines: Mutex<Lines>,
    grown: Condvar,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        // Every update leaves the lines whole, so a reader that panicked did no harm.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of lines so far: a mark to search from.
    pub fn mark(&self) -> usize {
        let lines = self.lock();
        lines.dropped + lines.kept.len()
    }

    /// Returns the first line at or after `mark` that `wanted` accepts, with its number.
    pub fn find(&self, mark: usize, wanted: impl Fn(&str) -> bool) -> Option<(usize, String)> {
        Self::find_in(&self.lock(), mark, &wanted)
    }

    /// Returns the lines at or after `mark`.
    pub fn since(&self, mark: usize) -> Vec<String> {
        let lines = self.lock();
        lines.kept.iter().skip(mark.saturating_sub(lines.dropped)).map(|line| line.text.clone()).collect()
    }

    pub(super) fn lines_of(&self, stream: Stream) -> Vec<String> {
        let lines = self.lock();
        lines.kept.iter().filter(|line| line.stream == stream).map(|line| line.text.clone()).collect()
    }

    /// Returns the last `count` lines, and the text after the last newline.
    pub fn tail(&self, count: usize) -> String {
        let lines = self.lock();
        let skip = lines.kept.len().saturating_sub(count);
        let mut tail = lines.kept.iter().skip(skip).fold(String::new(), |all, line| all + &line.text + "\n");
        lines.partial.iter().for_each(|partial| tail.push_str(&String::from_utf8_lossy(partial)));
        tail
    }

    /// Does the same as [`Log::find`], but waits for the line until `deadline`.
    pub(super) fn wait(
        &self,
        mark: usize,
        deadline: Instant,
        wanted: &impl Fn(&str) -> bool,
    ) -> Option<(usize, String)> {
        let mut lines = self.lock();
        let mut from = mark;
        loop {
            if let Some(found) = Self::find_in(&lines, from, wanted) {
                return Some(found);
            }
            from = from.max(lines.dropped + lines.kept.len());
            let left = deadline.checked_duration_since(Instant::now())?;
            lines = self.grown.wait_timeout(lines, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn find_in(lines: &Lines, mark: usize, wanted: &impl Fn(&str) -> bool) -> Option<(usize, String)> {
        let skip = mark.saturating_sub(lines.dropped);
        let (index, line) = lines.kept.iter().enumerate().skip(skip).find(|(_, line)| wanted(&line.text))?;
        Some((lines.dropped + index, line.text.clone()))
    }

    /// Waits until all streams are at their end, or until `deadline`.
    pub(super) fn wait_closed(&self, deadline: Instant) {
        let mut lines = self.lock();
        while lines.open > 0
            && let Some(left) = deadline.checked_duration_since(Instant::now())
        {
            lines = self.grown.wait_timeout(lines, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn append(&self, stream: Stream, bytes: &[u8]) {
        let mut lines = self.lock();
        for &byte in bytes {
            let partial = &mut lines.partial[stream as usize];
            if byte != b'\n' {
                partial.push(byte);
                continue;
            }
            let line = std::mem::take(partial);
            let text = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
            lines.kept.push_back(Line { stream, text });
            if lines.kept.len() > CAPACITY {
                lines.kept.pop_front();
                lines.dropped += 1;
            }
        }
        self.grown.notify_all();
    }

    /// Reads a pipe to its end on a separate thread. The thread is not joined: a grandchild may hold the pipe open.
    pub(super) fn capture(self: &Arc<Self>, mut pipe: impl Read + Send + 'static, stream: Stream) {
        self.lock().open += 1;
        let log = Arc::clone(self);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                log.append(stream, &buffer[..count]);
            }
            log.lock().open -= 1;
            log.grown.notify_all();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_wherever_the_reads_fall() {
        let log = Log::default();
        log.append(Stream::Output, b"one\r\ntw");
        log.append(Stream::Output, b"o\nprompt> ");
        assert_eq!(log.since(0), ["one", "two"]);
        assert_eq!(log.tail(1), "two\nprompt> ");
        assert_eq!(log.find(1, |line| line.contains('o')), Some((1, "two".into())));
    }

    #[test]
    fn lines_of_two_streams_are_not_mixed() {
        let log = Log::default();
        log.append(Stream::Output, b"on");
        log.append(Stream::Errors, b"oops\n");
        log.append(Stream::Output, b"e\n");
        assert_eq!(log.since(0), ["oops", "one"]);
        assert_eq!(
            (log.lines_of(Stream::Output), log.lines_of(Stream::Errors)),
            (vec!["one".into()], vec!["oops".into()])
        );
    }

    #[test]
    fn marks_stay_valid_when_lines_are_dropped() {
        let log = Log::default();
        for n in 0..CAPACITY + 10 {
            log.append(Stream::Output, format!("{n}\n").as_bytes());
        }
        assert_eq!(log.mark(), CAPACITY + 10);
        assert_eq!(log.since(CAPACITY + 9), [(CAPACITY + 9).to_string()]);
        assert_eq!(log.find(0, |_| true), Some((10, "10".into())));
    }
}
