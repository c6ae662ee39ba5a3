//! The transmit side of a queue, as it moves between the control side and the half of a worker.

use super::chunk;
use ::dpdk::{ToSend, Transmit};
use std::time::{Duration, Instant};

/// Ids of buffers that are taken back at once.
const DONE: usize = 64;

/// The transmit side of a queue, and its buffers that nobody has.
pub(super) struct Transmission {
    pub(super) queue: Transmit,
    /// Own chunks that the queue does not have.
    pub(super) free: Vec<u16>,
    /// Ids that no frame of a guest has.
    pub(super) ids: Vec<u16>,
    /// Number of all ids.
    pub(super) most: u16,
    /// Frames of a guest that the queue had no room for.
    pub(super) waiting: Vec<ToSend>,
    /// Ids of buffers that were sent; those from `at` to `end` are not processed yet.
    done: [u32; DONE],
    at: usize,
    end: usize,
}

impl Transmission {
    /// Returns the side of a queue that has nothing to send, with `chunks` chunks, and up to `most` frames of a guest at a time.
    pub(super) fn new(queue: Transmit, chunks: u16, most: u16) -> Transmission {
        Transmission {
            queue,
            free: (0..chunks).rev().collect(),
            ids: (0..most).rev().collect(),
            most,
            waiting: Vec::with_capacity(most.into()),
            done: [0; DONE],
            at: 0,
            end: 0,
        }
    }

    /// Returns the id of the buffer that was sent first and is not processed.
    #[inline(always)]
    pub(super) fn first_done(&mut self) -> Option<u32> {
        if self.at == self.end {
            self.at = 0;
            self.end = self.queue.done(&mut self.done);
        }
        self.done[self.at..self.end].first().copied()
    }

    /// Takes this buffer, the first that was sent, back. Returns the id of a guest's.
    #[inline(always)]
    pub(super) fn take_back(&mut self, id: u32) -> Option<u16> {
        self.at += 1;
        match chunk(id) {
            Some(chunk) => {
                self.free.push(chunk);
                None
            }
            None => {
                self.ids.push(id as u16);
                Some(id as u16)
            }
        }
    }

    /// Sends frames of a guest that wait. Reports whether all are sent.
    #[inline(always)]
    pub(super) fn flush(&mut self) -> bool {
        if !self.waiting.is_empty() {
            let sent = self.queue.send(&self.waiting);
            self.waiting.drain(..sent);
        }
        self.waiting.is_empty()
    }

    /// Takes back frames of a guest that are sent or will not be, and waits up to `patience` for the others. Returns the number of
    /// those that the device still has.
    pub(super) fn end(&mut self, patience: Duration) -> u32 {
        self.ids.extend(self.waiting.drain(..).map(|frame| frame.id() as u16));
        let end = Instant::now() + patience;
        loop {
            self.queue.clean();
            while let Some(id) = self.first_done() {
                self.take_back(id);
            }
            let out = u32::from(self.most) - self.ids.len() as u32;
            if out == 0 || Instant::now() >= end {
                return out;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
