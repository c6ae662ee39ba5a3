//! The sink: splits aggregates, and records packets' times and numbers.

use super::losses::Losses;
use super::packet;
use crate::cycles;
use ::packet::{BurstStorage, MAX_BURST, MAX_FRAME};
use hdrhistogram::Histogram;
use netdev::PacketRx;
use paflow::AggregationRules;
use paflow::decode::{MOST, Piece, locate};
use virtqueue::Fatal;
use virtqueue::device::Dequeue;

/// Longest time that is recorded, in cycles: minutes. Longer ones count as this one.
const LONGEST: u64 = 1 << 40;

/// Returns an empty histogram of times in cycles, accurate to a thousandth.
pub fn times() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are in order")
}

/// Packets that arrived.
#[derive(Clone)]
pub struct Arrivals {
    /// Frames that packets were in.
    pub frames: u64,
    /// Frames and embedded packets that were never sent.
    pub strange: u64,
    /// Cycles from sending a packet to its arrival here.
    pub times: Histogram<u64>,
    /// Received and missing packet numbers.
    pub losses: Losses,
}

/// The sink.
pub struct Sink {
    storage: Box<BurstStorage>,
    /// Copy of a frame in another process's memory.
    copy: Box<[u8]>,
    desk: Desk,
}

/// Decoder of frames.
struct Desk {
    rules: AggregationRules,
    pieces: Box<[Piece; MOST]>,
    arrivals: Arrivals,
}

impl Sink {
    /// Creates a sink for the aggregates addressed to the owner of these rules.
    pub fn new(rules: AggregationRules) -> Sink {
        let desk = Desk { rules, pieces: Box::new([Piece::default(); MOST]), arrivals: Arrivals::from(0) };
        Sink { storage: Box::default(), copy: vec![0; MAX_FRAME as usize].into(), desk }
    }

    /// Starts again with this number; returns the earlier arrivals.
    pub fn restart(&mut self, number: u64) -> Arrivals {
        let mut arrivals = std::mem::replace(&mut self.desk.arrivals, Arrivals::from(number));
        arrivals.losses.end(number);
        arrivals
    }

    /// Takes a burst that a driver sent; reports whether there was anything.
    #[inline(always)]
    pub fn take_from_driver(&mut self, from: &Dequeue) -> Result<bool, Fatal> {
        let mut burst = self.storage.start();
        if from.receive(&mut burst)? == 0 {
            return Ok(false);
        }
        let now = cycles::now();
        let frames = burst.frames();
        for frame in frames.as_slice() {
            let len = frames.copy_to(frame, &mut self.copy);
            self.desk.take(&self.copy[..len], now);
        }
        from.recycle();
        Ok(true)
    }

    /// Takes a burst that the kernel received; reports whether there was anything.
    #[inline(always)]
    pub fn take_from_kernel(&mut self, ring: &mut PacketRx) -> bool {
        let (now, mut any) = (cycles::now(), false);
        for frame in ring.burst(MAX_BURST) {
            self.desk.take(frame.bytes(), now);
            any = true;
        }
        ring.release();
        any
    }
}

impl Desk {
    #[inline(always)]
    fn take(&mut self, frame: &[u8], now: u64) {
        self.arrivals.frames += 1;
        let Ok(found) = self.rules.find(frame) else { return self.arrivals.strange += 1 };
        let Some(found) = found else { return self.arrivals.take(frame, now) };
        let Ok(number) = locate(frame, found.range, found.tail, &mut self.pieces[..]) else {
            return self.arrivals.strange += 1;
        };
        for piece in &self.pieces[..number] {
            let start = piece.start as usize;
            self.arrivals.take(&frame[start..start + usize::from(piece.len)], now);
        }
    }
}

impl Arrivals {
    /// Starts with the packet of this number.
    fn from(number: u64) -> Arrivals {
        Arrivals { frames: 0, strange: 0, times: times(), losses: Losses::from(number) }
    }

    #[inline(always)]
    fn take(&mut self, packet: &[u8], now: u64) {
        match packet::read(packet) {
            Some(stamp) => {
                if self.losses.note(stamp.number) {
                    self.times.saturating_record(now.saturating_sub(stamp.sent));
                }
            }
            None => self.strange += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::{Stamp, blank, stamp};
    use super::super::tests::rules;
    use super::*;

    #[test]
    fn packets_are_taken_out_of_aggregates_for_us_and_counted_once() {
        let packet = |number| {
            let mut packet = blank();
            stamp(&mut packet, Stamp { number, sent: 1000 });
            packet
        };
        let packets = [packet(1), packet(2)];
        let packets: Vec<&[u8]> = packets.iter().map(|packet| &packet[..]).collect();
        let rules = rules();
        let next_hops = [rules.table.next_hop(packets[0]); 2];
        let template = &rules.hops[0].template;
        let mut planner = paflow::Planner::new();
        let plan = planner.plan(&[64, 64], &next_hops, |_| template.room());
        let mut frame = vec![0; 1500];
        let len = paflow::encode::write(&plan, &plan.groups()[0], template, &packets, &mut frame).unwrap();
        frame.truncate(len);
        let mut sink = Sink::new(rules);
        sink.desk.take(&packet(0), 1500);
        // For another receiver.
        sink.desk.take(&frame, 1500);
        // For the owner of these rules.
        frame[33] = 2;
        // The header's checksum is in one's complement: one more there, one less here.
        let sum = u16::from_be_bytes([frame[24], frame[25]]) - 1;
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        sink.desk.take(&frame, 1700);
        sink.desk.take(&packet(5), 1500);
        let arrivals = sink.restart(6);
        assert_eq!((arrivals.frames, arrivals.strange), (4, 1));
        assert_eq!((arrivals.losses.received(), arrivals.losses.lost()), (4, 2));
        assert_eq!((arrivals.times.len(), arrivals.times.max()), (4, 700));
        assert_eq!(sink.restart(7).losses.lost(), 1);
    }
}
