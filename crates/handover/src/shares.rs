//! Room in a ring, by port: a port that floods a ring leaves room for the others.

use crate::punt::Punt;
use crate::ring::{Ring, words};

/// Room that each port uses in a ring. Only the worker accesses it.
pub struct Shares {
    /// Position up to which packets that were read have been deducted.
    seen: u64,
    /// Words in use, by port number. Packets of no known port count for number 0.
    held: Box<[usize]>,
    /// Limit of each port's words.
    share: usize,
}

impl Shares {
    /// Returns the shares of ports with these numbers, and of number 0, starting at the current tail.
    pub fn new(ring: &Ring, numbers: &[u32]) -> Shares {
        let largest = numbers.iter().max().map_or(0, |number| *number as usize);
        let share = ring.size() / (numbers.len() + 1);
        Shares { seen: ring.written(), held: vec![0; largest + 1].into(), share }
    }

    fn of(&mut self, in_port: u32) -> &mut usize {
        let number = (in_port as usize) < self.held.len();
        &mut self.held[if number { in_port as usize } else { 0 }]
    }

    /// Deducts packets that were read.
    fn settle(&mut self, ring: &Ring) {
        let read = ring.read();
        while self.seen < read {
            let (in_port, words) = ring.share(self.seen);
            *self.of(in_port) -= words;
            self.seen += words as u64;
        }
    }

    /// Pushes a packet, or counts it as lost if its port has used up its share or the ring is full.
    #[inline]
    pub fn push(&mut self, ring: &Ring, punt: &Punt, bytes: &[u8]) -> bool {
        self.settle(ring);
        let (share, needed) = (self.share, words(bytes.len()));
        let held = self.of(punt.in_port);
        // A port's only packet may exceed the share, as long as the ring has room.
        if *held > 0 && *held + needed > share {
            ring.lost.add(1);
            return false;
        }
        let taken = ring.push(punt, bytes);
        *held += if taken { needed } else { 0 };
        taken
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_floods_leaves_their_shares_to_others() {
        let ring = Ring::new(1 << 10);
        let mut shares = Shares::new(&ring, &[1, 2, 3, 5, 6, 7, 9]);
        let mut push = |in_port, len| {
            let punt = Punt { in_port, ..Punt::default() };
            shares.push(&ring, &punt, &[0; 1000][..len])
        };
        // Six ports in turn, with packets of all lengths, and a reader that pops now and then.
        for round in 0..200 {
            for port in [1, 2, 3, 5, 6, 7] {
                let taken = (0..500).filter(|n| push(port, (n * 7 + round) % 200)).count();
                assert!(taken > 0 || round % 4 != 0, "port {port} in round {round}");
            }
            assert!(push(9, 60) && push(u32::MAX, 60), "in round {round}");
            (0..1 + round % 3).for_each(|_| _ = ring.pop(&mut Vec::new()));
            while round % 4 == 3 && ring.pop(&mut Vec::new()).is_some() {}
        }
        while ring.pop(&mut Vec::new()).is_some() {}
        assert!(push(1, 8) && push(u32::MAX, 8));
        assert_eq!(shares.held.iter().sum::<usize>(), 2 * words(8), "all that was read is forgotten");
    }
}
