//! The switch's log, on the standard error output: one that can't be written ends nothing.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// Lines that could not be written since one could.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Starts the log.
pub fn start(level: tracing::Level) {
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(|| Lenient(io::stderr()))
        .with_ansi(false)
        // It would complain on the standard error output, and panic if it can't.
        .log_internal_errors(false)
        .init();
}

/// Writes whole lines, and counts those that can't be written: the reader may have gone, or the disk be full.
struct Lenient<W>(W);

impl<W: Write> Write for Lenient<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let lost = LOST.load(Ordering::Relaxed);
        // The last line may have been cut in the middle.
        let told = lost == 0 || writeln!(self.0, "\n{lost} lines of this log could not be written").is_ok();
        if told {
            LOST.fetch_sub(lost, Ordering::Relaxed);
        }
        if !told || self.0.write_all(line).is_err() {
            LOST.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that is full for a while.
    struct Disk {
        full: bool,
        written: Vec<u8>,
    }

    impl Write for &mut Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.full {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.written.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lost_lines_are_counted_and_reported() {
        let mut disk = Disk { full: true, written: vec![] };
        for line in ["one\n", "two\n"] {
            Lenient(&mut disk).write_all(line.as_bytes()).unwrap();
        }
        disk.full = false;
        for line in ["three\n", "four\n"] {
            Lenient(&mut disk).write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(
            String::from_utf8(disk.written).unwrap(),
            "\n2 lines of this log could not be written\nthree\nfour\n"
        );
    }
}
