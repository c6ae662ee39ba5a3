//! The device behind the port of a crew: it fills the receive queues before a measurement, and empties the others after.
//!
//! While a crew works on full queues, the device does nothing. So no cycles of the crew's processors go to what hardware does
//! elsewhere.

use super::error::CrewSubjectError;
use crate::analysis::sharing::plan::Flows;
use loadgen::cpu;
use loadgen::wire::Nic;
use packet::{BurstStorage, MAX_BURST, Segment};
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of a frame, without its checksum.
const LEN: usize = 64;
/// Where the number of a frame's flow is: after an Ethernet header.
pub const FLOW: usize = 14;
/// Where the last frame of each queue is marked.
pub const LAST: usize = 15;
/// An EtherType for experiments (IEEE 802).
const EXPERIMENTAL: [u8; 2] = [0x88, 0xb5];
/// Bursts that one processor writes before the other one does.
const ALTERNATE: usize = 2;
/// Time for the queues to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// The device. It spreads flows evenly over its queues, which a hash does not always.
pub struct Wire {
    nic: Nic,
    /// A frame of each flow, and one of each that is marked.
    frames: Vec<[u8; LEN]>,
    marked: Vec<[u8; LEN]>,
    /// Frames that are in flight.
    out: usize,
}

impl Wire {
    /// Serves this socket with the given number of queue pairs.
    pub fn serve(socket: &Path, queues: u16) -> Result<Wire, CrewSubjectError> {
        let frame = |flow: usize, mark: u8| {
            let mut frame = [0; LEN];
            (frame[0], frame[6]) = (2, 2);
            frame[12..FLOW].copy_from_slice(&EXPERIMENTAL);
            (frame[FLOW], frame[LAST]) = (flow as u8, mark);
            frame
        };
        let frames = |mark| (0..Flows::Many.count()).map(|flow| frame(flow, mark)).collect();
        Ok(Wire { nic: Nic::serve(socket, queues)?, frames: frames(0), marked: frames(1), out: 0 })
    }

    /// Waits until all queues have started.
    pub fn wait(&self) -> Result<(), CrewSubjectError> {
        let began = Instant::now();
        for queue in 0..self.nic.pairs() {
            while self.nic.rings(queue).both().is_none() {
                if began.elapsed() > PATIENCE {
                    return Err(CrewSubjectError::NoQueues);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// Puts this many frames into the receive queues, and marks the last of each queue. Both processors write some: so each finds as
    /// much in its caches as the other, whichever thread receives them.
    pub fn fill(&mut self, count: usize, flows: Flows, cpus: [usize; 2]) -> Result<(), CrewSubjectError> {
        // Each flow has one among the last frames.
        let tail = count.saturating_sub(flows.count());
        let last = |queue| (tail..count).rfind(|number| self.queue_of(number % flows.count()) == queue);
        let last: Vec<usize> = (0..self.nic.pairs()).filter_map(last).collect();
        let some = ALTERNATE * MAX_BURST;
        for (turn, from) in (0..count).step_by(some).enumerate() {
            cpu::pin(cpus[turn % 2])?;
            self.put(from..count.min(from + some), flows, &last)?;
        }
        Ok(())
    }

    /// Puts the frames with these numbers into the receive queues, and wakes threads that wait for them.
    pub fn send(&mut self, numbers: Range<usize>, flows: Flows) -> Result<(), CrewSubjectError> {
        self.put(numbers, flows, &[])?;
        (0..self.nic.pairs()).for_each(|queue| self.nic.notify(queue));
        Ok(())
    }

    /// Puts the frames with these numbers into the receive queues, and marks those in `last`.
    fn put(&mut self, numbers: Range<usize>, flows: Flows, last: &[usize]) -> Result<(), CrewSubjectError> {
        let mut storage = Box::<BurstStorage>::default();
        for queue in 0..self.nic.pairs() {
            let of_queue = numbers.clone().filter(|number| self.queue_of(number % flows.count()) == queue);
            let of_queue: Vec<usize> = of_queue.collect();
            let rings = self.nic.rings(queue);
            let (to, _) = rings.both().ok_or(CrewSubjectError::NoQueues)?;
            let mut left = &of_queue[..];
            while !left.is_empty() {
                let mut burst = storage.start();
                for number in &left[..left.len().min(MAX_BURST)] {
                    let frames = if last.contains(number) { &self.marked } else { &self.frames };
                    burst.push(Segment::from(&frames[number % flows.count()][..]));
                }
                let sent = to.transmit(burst.frames())?.frames as usize;
                if sent == 0 {
                    let wanted = of_queue.len();
                    return Err(CrewSubjectError::NoRoom { sent: wanted - left.len(), wanted });
                }
                left = &left[sent..];
                self.out += sent;
            }
        }
        Ok(())
    }

    /// Takes all frames that came back; returns the number of those that are still in flight.
    pub fn take(&mut self) -> Result<usize, CrewSubjectError> {
        let mut storage = Box::<BurstStorage>::default();
        for queue in 0..self.nic.pairs() {
            let rings = self.nic.rings(queue);
            let (_, from) = rings.both().ok_or(CrewSubjectError::NoQueues)?;
            loop {
                let mut burst = storage.start();
                let received = from.receive(&mut burst)?;
                if received == 0 {
                    break;
                }
                from.recycle();
                self.out = self.out.saturating_sub(received);
            }
        }
        Ok(self.out)
    }

    fn queue_of(&self, flow: usize) -> usize {
        flow % self.nic.pairs()
    }
}
