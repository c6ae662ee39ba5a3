//! The source: a NIC that sends packets one by one, or joined as another switch would have joined them.

use super::packet::{self, Stamp};
use crate::pace::Pace;
use ::packet::{BurstStorage, MAX_BURST, Segment};
use paflow::decode::{MOST, Piece, locate};
use paflow::{AggregationRules, Planner, Receiver};
use virtqueue::Fatal;
use virtqueue::device::Enqueue;

/// A frame that is sent repeatedly, and the offsets of its packets.
#[derive(Clone)]
struct Frame {
    bytes: Vec<u8>,
    packets: Vec<usize>,
}

/// Sender of packets at their due times, whether or not there is room for them.
pub struct Source {
    storage: Box<BurstStorage>,
    /// Frames of whole trains, at least one burst.
    frames: Vec<Frame>,
    next: usize,
    offered: u64,
    refused: u64,
    turns: u64,
}

impl Source {
    /// Creates a source of packets in trains of `train`, joined by these rules if given.
    pub fn new(train: u16, rules: Option<&AggregationRules>) -> Source {
        let one = Frame { bytes: packet::blank().into(), packets: vec![0] };
        let of_a_train = match rules {
            Some(rules) => joined(train, rules),
            None => vec![one; train.into()],
        };
        let trains = MAX_BURST.div_ceil(of_a_train.len());
        let frames = vec![of_a_train; trains].concat();
        Source { storage: Box::default(), frames, next: 0, offered: 0, refused: 0, turns: 0 }
    }

    /// Sends the packets due `now`, stamped. Packets without room are lost, as with a NIC.
    #[inline(always)]
    pub fn turn(&mut self, pace: &mut Pace, to: &Enqueue, now: u64) -> Result<bool, Fatal> {
        let due = pace.due(now);
        if self.offered >= due {
            return Ok(false);
        }
        self.turns += 1;
        while self.offered < due {
            self.send_burst(due, to, now)?;
        }
        Ok(true)
    }

    #[inline(always)]
    fn send_burst(&mut self, due: u64, to: &Enqueue, now: u64) -> Result<(), Fatal> {
        let all = self.frames.len();
        let following = |at: usize| if at + 1 < all { at + 1 } else { 0 };
        let (mut at, mut count) = (self.next, 0);
        while count < MAX_BURST && self.offered < due {
            let frame = &mut self.frames[at];
            for &start in &frame.packets {
                packet::stamp(&mut frame.bytes[start..], Stamp { number: self.offered, sent: now });
                self.offered += 1;
            }
            (at, count) = (following(at), count + 1);
        }
        let mut burst = self.storage.start();
        let mut from = self.next;
        for _ in 0..count {
            burst.push(Segment::from(&self.frames[from].bytes[..]));
            from = following(from);
        }
        // Frames without a buffer are at the end of the burst.
        let sent = to.transmit(burst.frames())?.frames as usize;
        let mut refused = (self.next + sent) % all;
        for _ in sent..count {
            self.refused += self.frames[refused].packets.len() as u64;
            refused = following(refused);
        }
        self.next = at;
        Ok(())
    }

    /// Returns the number of packets due so far; the next one has this number.
    pub fn offered(&self) -> u64 {
        self.offered
    }

    /// Returns the number of these packets for which there was no room.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns how often something was sent: once per packet if each was sent at its due time.
    pub fn turns(&self) -> u64 {
        self.turns
    }
}

fn joined(train: u16, rules: &AggregationRules) -> Vec<Frame> {
    let blank = packet::blank();
    let packets = vec![&blank[..]; train.into()];
    let lengths = vec![blank.len() as u16; train.into()];
    let next_hops = vec![rules.table.next_hop(&blank[..]); train.into()];
    let hop = |nfi| &rules.hops[rules.hop(nfi).expect("next hops of flows exist")];
    let mut planner = Planner::new();
    let plan = planner.plan(&lengths, &next_hops, |nfi| hop(nfi).template.room());
    let frame = |group: &paflow::plan::Group| match group.next_hop().filter(|_| !group.goes_as_it_is()) {
        None => Frame { bytes: blank.into(), packets: vec![0] },
        Some(nfi) => {
            let template = &hop(nfi).template;
            let mut bytes = vec![0; template.len() + group.size() as usize];
            paflow::encode::write(&plan, group, template, &packets, &mut bytes).expect("there is room");
            let mut pieces = [Piece::default(); MOST];
            let found = Receiver::default().find(&bytes[..]).expect("it is sound").expect("it is an aggregate");
            let number = locate(&bytes[..], found.range, found.tail, &mut pieces).expect("it is sound");
            Frame { bytes, packets: pieces[..number].iter().map(|piece| piece.start as usize).collect() }
        }
    };
    plan.groups().iter().map(frame).collect()
}

#[cfg(test)]
mod tests {
    use super::super::packet::SIZE;
    use super::super::tests::rules;
    use super::*;
    use crate::pace::Intervals;
    use virtqueue::driver::{Buffer, Queue};
    use virtqueue::memory::Arena;
    use virtqueue::{NET_HEADER, Negotiated, features};

    const ROOM: u32 = 2048;

    /// A NIC's driver with buffers.
    struct Driver {
        arena: Arena,
        queue: Queue,
        addresses: Vec<u64>,
    }

    impl Driver {
        fn new(buffers: u16) -> (Driver, Enqueue) {
            let mut arena = Arena::new(1 << 20, false).unwrap();
            let negotiated = Negotiated(features::VERSION_1 | features::MRG_RXBUF);
            let config = Queue::layout(&mut arena, 256, negotiated).unwrap();
            let mut driver = Driver { queue: Queue::new(&arena, &config).unwrap(), arena, addresses: vec![0; 256] };
            (0..buffers).for_each(|_| driver.post());
            let to = Enqueue::new(driver.arena.memory().clone(), &config).unwrap();
            (driver, to)
        }

        fn post(&mut self) {
            let addr = self.arena.allocate(ROOM.into(), 64).unwrap();
            let id = self.queue.add(&[Buffer { addr, len: ROOM, writable: true }]).unwrap();
            self.addresses[usize::from(id)] = addr;
            self.queue.publish();
        }

        fn received(&mut self) -> Vec<Vec<u8>> {
            std::iter::from_fn(|| self.queue.pop_used().unwrap())
                .map(|used| {
                    let mut bytes = vec![0; used.len as usize];
                    self.arena.segment(self.addresses[usize::from(used.id)], used.len).unwrap().copy_to(&mut bytes);
                    bytes.split_off(NET_HEADER as usize)
                })
                .collect()
        }
    }

    #[test]
    fn due_packets_are_sent_and_those_without_room_refused() {
        let (mut driver, to) = Driver::new(5);
        let mut source = Source::new(1, None);
        let mut pace = Pace::new(0, 1e6, 1e9, 1, Intervals::Equal);
        for (now, turn) in [(0, true), (500, false), (6_500, true)] {
            assert_eq!(source.turn(&mut pace, &to, now).unwrap(), turn, "{now}");
        }
        assert_eq!((source.offered(), source.refused(), source.turns()), (7, 2, 2));
        driver.post();
        source.turn(&mut pace, &to, 7_500).unwrap();
        let stamps: Vec<Stamp> = driver.received().iter().map(|frame| packet::read(frame).unwrap()).collect();
        assert_eq!(stamps.iter().map(|stamp| stamp.number).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 7]);
        assert_eq!(stamps.iter().map(|stamp| stamp.sent).collect::<Vec<_>>(), [0, 6500, 6500, 6500, 6500, 7500]);
    }

    #[test]
    fn a_joined_train_is_two_frames_and_every_packet_in_them_has_its_stamp() {
        let (mut driver, to) = Driver::new(8);
        let mut source = Source::new(32, Some(&rules()));
        let mut pace = Pace::new(0, 1e6, 1e9, 32, Intervals::Equal);
        for now in [0, 32_500, 64_500] {
            assert!(source.turn(&mut pace, &to, now).unwrap());
        }
        assert_eq!((source.offered(), source.refused()), (96, 0));
        let mut numbers = Vec::new();
        let mut held = Vec::new();
        for frame in driver.received() {
            let found = Receiver::default().find(&frame[..]).unwrap().unwrap();
            let mut pieces = [Piece::default(); MOST];
            let number = locate(&frame[..], found.range, found.tail, &mut pieces).unwrap();
            held.push(number);
            let packet = |piece: &Piece| packet::read(&frame[piece.start as usize..][..SIZE]).unwrap().number;
            numbers.extend(pieces[..number].iter().map(packet));
        }
        assert_eq!(held, [22, 10, 22, 10, 22, 10]);
        assert_eq!(numbers, (0..96).collect::<Vec<_>>());
    }
}
