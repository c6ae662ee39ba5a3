//! A guest that posts buffers, which are lent and filled elsewhere.

use super::{Case, Driver, POSTED};
use std::collections::{HashMap, VecDeque};
use virtqueue::NET_HEADER;
use virtqueue::device::{Enqueue, Loan};

/// Returns a case in which buffers can be lent.
pub fn case(packed: bool, size: u16) -> Case {
    Case { packed, in_order: false, event_idx: false, mergeable: true, size }
}

/// A guest that posts buffers and collects the frames in them.
pub struct Guest {
    pub driver: Driver,
    pub enqueue: Enqueue,
    /// Area of each posted buffer, by the id of its chain.
    pub area_of: HashMap<u16, u16>,
    free: VecDeque<u16>,
    /// Frames that arrived, and number of buffers that came back without one.
    pub received: Vec<Vec<u8>>,
    pub empty: usize,
}

impl Guest {
    pub fn new(case: Case) -> Guest {
        let driver = Driver::new(case);
        let enqueue = driver.enqueue();
        let free = (0..case.size).collect();
        Guest { driver, enqueue, area_of: HashMap::new(), free, received: vec![], empty: 0 }
    }

    pub fn post(&mut self, count: usize, room: u32) {
        self.post_in(count, room, 1);
    }

    /// Posts buffers of `room` bytes, each in this number of pieces, as many as there is room for.
    pub fn post_in(&mut self, count: usize, room: u32, pieces: usize) {
        for _ in 0..count {
            if usize::from(self.driver.queue.free()) < pieces {
                break;
            }
            let Some(area) = self.free.pop_front() else { break };
            let id = self.driver.add(area, &vec![room / pieces as u32; pieces], POSTED).expect("there are descriptors");
            self.area_of.insert(id, area);
        }
        self.driver.queue.publish();
    }

    pub fn collect(&mut self) {
        while let Some(used) = self.driver.queue.pop_used().unwrap() {
            let area = self.area_of.remove(&used.id).expect("came back once");
            self.free.push_back(area);
            if used.len == 0 {
                self.empty += 1;
                continue;
            }
            let bytes = self.driver.read(self.driver.area(area), used.len);
            assert_eq!(bytes[..12], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0], "a whole frame without offloads");
            self.received.push(bytes[12..].to_vec());
        }
    }

    /// Writes a frame into a loan from outside, as a NIC does.
    pub fn fill(&self, loan: &Loan, bytes: &[u8]) {
        // The filler may leave anything in the header.
        self.write(loan, 0, &[0xee; NET_HEADER as usize]);
        self.write(loan, NET_HEADER, bytes);
    }

    pub fn write(&self, loan: &Loan, at: u32, bytes: &[u8]) {
        assert!(loan.len() as usize >= bytes.len() + at as usize);
        let base = self.driver.arena.host(virtqueue::memory::Arena::BASE, 1).unwrap().as_ptr().addr() as u64;
        let addr = virtqueue::memory::Arena::BASE + (loan.addr() - base);
        self.driver.write(addr + u64::from(at), bytes);
    }
}
