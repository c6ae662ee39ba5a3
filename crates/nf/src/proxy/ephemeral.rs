//! Ports of connections that the proxy opens.

use std::collections::HashSet;

/// The ephemeral ports (RFC 6335 §6).
const FIRST: u16 = 49152;
const COUNT: u16 = u16::MAX - FIRST + 1;

/// Numbers of ports, each used once at a time, and again as late as possible.
pub(super) struct Ephemeral {
    next: u16,
    used: HashSet<u16>,
}

impl Ephemeral {
    /// Begins at a place that `seed` decides.
    pub(super) fn new(seed: u64) -> Ephemeral {
        Ephemeral { next: (seed % u64::from(COUNT)) as u16, used: HashSet::new() }
    }

    /// Takes a port; `None` if all are in use.
    pub(super) fn take(&mut self) -> Option<u16> {
        for _ in 0..COUNT {
            let port = FIRST + self.next;
            self.next = (self.next + 1) % COUNT;
            if self.used.insert(port) {
                return Some(port);
            }
        }
        None
    }

    /// Gives a port back. Ports that were not taken stay as they are.
    pub(super) fn give_back(&mut self, port: u16) {
        self.used.remove(&port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_end_and_come_again() {
        let mut ports = Ephemeral::new(u64::MAX);
        let all: HashSet<u16> = std::iter::from_fn(|| ports.take()).collect();
        assert_eq!((all.len(), all.iter().min()), (16384, Some(&49152)));
        ports.give_back(50000);
        ports.give_back(80);
        assert_eq!([ports.take(), ports.take()], [Some(50000), None]);
    }
}
