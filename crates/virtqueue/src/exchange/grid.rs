//! The counters of an exchange: of each pair of its ports.

use super::counts::{Counters, Counts, Tally};
use packet::Offer;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters by source and destination. It also tells the frames of this exchange from those of others.
#[derive(Debug)]
pub struct Grid {
    id: u64,
    ports: u16,
    /// Behind the ports' own rows is one of frames from outside.
    counters: Box<[Counters]>,
}

impl Grid {
    /// Returns the counters of an exchange with this number of ports.
    pub fn new(ports: u16) -> Grid {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let rows = usize::from(ports) + 1;
        let counters = (0..rows * usize::from(ports)).map(|_| Counters::default()).collect();
        Grid { id: NEXT.fetch_add(1, Ordering::Relaxed), ports, counters }
    }

    /// Returns a number that no other exchange of this process has.
    #[inline(always)]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the numbers of frames from one port to another; those from outside come from the port behind the last.
    pub fn counts(&self, from: u16, to: u16) -> Counts {
        self.counters(from, to).read()
    }

    /// Counts frames to a port, which came from this offer or from outside.
    #[inline(always)]
    pub(crate) fn add(&self, offer: Option<&Offer>, to: u16, tally: Tally) {
        let from = match offer {
            Some(offer) if offer.group() == self.id => offer.port(),
            _ => self.ports,
        };
        self.counters(from, to).add(tally);
    }

    #[inline(always)]
    fn counters(&self, from: u16, to: u16) -> &Counters {
        &self.counters[usize::from(from) * usize::from(self.ports) + usize::from(to)]
    }
}
