//! Resources that a Millrace holds while nothing comes or goes.

use super::{Millrace, SOON};
use crate::process::Usage;
use crate::{Error, Result};
use std::time::{Duration, Instant};

/// Number of equal observations required for a state to be at rest, and the pause between them.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// Memory that an allocator may keep for itself, in bytes.
const SLACK: u64 = 1 << 20;

impl Millrace {
    /// Returns its usage at rest: once descriptors and threads stay the same for a while. Ports that are being opened or closed
    /// briefly hold more or less.
    pub fn usage_at_rest(&self) -> Result<Usage> {
        let (mut last, mut same) = (self.usage()?, 0);
        self.wait_for("the numbers of descriptors and threads to stay the same", || {
            std::thread::sleep(PAUSE);
            let now = self.usage()?;
            same = if (now.fds, now.threads) == (last.fds, last.threads) { same + 1 } else { 0 };
            last = now;
            Ok((same == LOOKS).then_some(now))
        })
    }

    /// Waits until it holds no more than `before`, after `events` events each of which may have leaked something; returns what it
    /// holds.
    pub fn holds_no_more(&self, before: Usage, events: usize) -> Result<Usage> {
        // Freed memory splits and joins mappings by itself. A leak adds one for each event.
        let mappings = before.mappings + events * 3 / 4;
        let few = |now: &Usage| now.fds <= before.fds && now.threads <= before.threads && now.mappings <= mappings;
        let deadline = Instant::now() + SOON;
        loop {
            let now = self.usage()?;
            if few(&now) && now.rss <= before.rss + SLACK {
                return Ok(now);
            }
            if Instant::now() >= deadline {
                let problem = format!("it still holds more than before: {before:?}, now {now:?}");
                return Err(Error::malformed("Millrace's usage", problem));
            }
            std::thread::sleep(PAUSE);
        }
    }
}
