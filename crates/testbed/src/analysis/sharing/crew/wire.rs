//! The device behind the port of a crew: it fills the receive queue before a measurement, and empties the other one after.
//!
//! While a crew works on a full queue, the device does nothing. So no cycles of the crew's processors go to what hardware does
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
/// Where the number of a frame's flow is: behind an Ethernet header.
pub const FLOW: usize = 14;
/// Where the last frame of a measurement is marked.
pub const LAST: usize = 15;
/// An EtherType for experiments (IEEE 802).
const EXPERIMENTAL: [u8; 2] = [0x88, 0xb5];
/// Bursts that one processor writes before the other one does.
const ALTERNATE: usize = 2;
/// Time for the queues to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// The device.
pub struct Wire {
    nic: Nic,
    /// A frame of each flow.
    frames: Vec<[u8; LEN]>,
    last: [u8; LEN],
    /// Frames that are under way.
    out: usize,
}

impl Wire {
    /// Serves this socket.
    pub fn serve(socket: &Path) -> Result<Wire, CrewSubjectError> {
        let frame = |flow: usize| {
            let mut frame = [0; LEN];
            (frame[0], frame[6]) = (2, 2);
            frame[12..FLOW].copy_from_slice(&EXPERIMENTAL);
            frame[FLOW] = flow as u8;
            frame
        };
        let frames = (0..Flows::Many.count()).map(frame).collect();
        let mut last = frame(0);
        last[LAST] = 1;
        Ok(Wire { nic: Nic::serve(socket, 1)?, frames, last, out: 0 })
    }

    /// Waits until both queues have started.
    pub fn wait(&self) -> Result<(), CrewSubjectError> {
        let began = Instant::now();
        while self.nic.rings().both().is_none() {
            if began.elapsed() > PATIENCE {
                return Err(CrewSubjectError::NoQueues);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Puts this many frames into the receive queue, and marks the last. Both processors write some: so each finds as much in its
    /// caches as the other, whichever thread receives them.
    pub fn fill(&mut self, count: usize, flows: Flows, cpus: [usize; 2]) -> Result<(), CrewSubjectError> {
        let some = ALTERNATE * MAX_BURST;
        for (turn, from) in (0..count).step_by(some).enumerate() {
            cpu::pin(cpus[turn % 2])?;
            self.send(from..count.min(from + some), flows, Some(count - 1))?;
        }
        Ok(())
    }

    /// Puts the frames with these numbers into the receive queue; marks the last one of all if it is known.
    pub fn send(&mut self, numbers: Range<usize>, flows: Flows, last: Option<usize>) -> Result<(), CrewSubjectError> {
        let rings = self.nic.rings();
        let (to, _) = rings.both().ok_or(CrewSubjectError::NoQueues)?;
        let mut storage = Box::<BurstStorage>::default();
        let mut next = numbers.start;
        while next < numbers.end {
            let mut burst = storage.start();
            for number in next..numbers.end.min(next + MAX_BURST) {
                let frame = if last == Some(number) { &self.last } else { &self.frames[number % flows.count()] };
                burst.push(Segment::from(&frame[..]));
            }
            let sent = to.transmit(burst.frames())?.frames as usize;
            if sent == 0 {
                return Err(CrewSubjectError::NoRoom { sent: next - numbers.start, wanted: numbers.len() });
            }
            next += sent;
            self.out += sent;
        }
        Ok(())
    }

    /// Takes all frames that came back; returns the number of those that are still under way.
    pub fn take(&mut self) -> Result<usize, CrewSubjectError> {
        let rings = self.nic.rings();
        let (_, from) = rings.both().ok_or(CrewSubjectError::NoQueues)?;
        let mut storage = Box::<BurstStorage>::default();
        loop {
            let mut burst = storage.start();
            let received = from.receive(&mut burst)?;
            if received == 0 {
                return Ok(self.out);
            }
            from.recycle();
            self.out = self.out.saturating_sub(received);
        }
    }
}
