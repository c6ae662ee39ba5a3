//! Members of a group that make any places available, their own buffers or not.

use arbitrary::Arbitrary;
use packet::{BurstStorage, MAX_FRAME};
use std::sync::Arc;
use virtqueue::device::{Dequeue, Enqueue};
use virtqueue::driver::{Buffer, Queue};
use virtqueue::exchange::{Geometry, Group, GroupOptions, Joined, Seat};
use virtqueue::memory::{Arena, Region};
use virtqueue::{Negotiated, features};

/// Members, and buffers of each.
const MEMBERS: usize = 3;
const OWN: u16 = 8;
/// Descriptors of each queue.
const SIZE: u16 = 16;
/// Guest address of the group's memory.
const AT: u64 = 1 << 40;

/// Kind of a member's rings.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Ring {
    packed: bool,
    in_order: bool,
}

/// A place in the group's memory, mostly where a buffer begins.
#[derive(Arbitrary, Debug)]
pub struct BufferRange {
    buffer: u8,
    shift: u8,
    len: u16,
}

#[derive(Arbitrary, Debug)]
pub enum Step {
    Send { who: u8, places: Vec<BufferRange> },
    Post { who: u8, places: Vec<BufferRange> },
    Forward { from: u8, to: u8, may_exchange: bool },
    Restart { who: u8 },
}

struct Member {
    _arena: Arena,
    seat: Arc<Seat>,
    geometry: Geometry,
    receive: Queue,
    transmit: Queue,
    enqueue: Enqueue,
    dequeue: Dequeue,
}

impl Member {
    fn new(group: &Arc<Group>, port: u16, ring: Ring) -> Member {
        let seat = group.join(port.into(), OWN).unwrap();
        let geometry = group.options().geometry;
        let mut arena = Arena::new(1 << 16, false).unwrap();
        let len = geometry.bytes().next_multiple_of(4096);
        let region = Region { guest_addr: AT, user_addr: AT, len, offset: 0, file: group.file().clone() };
        let memory = Arc::new(arena.memory().with_region(region).unwrap());
        let wanted = |on, mask| if on { mask } else { 0 };
        let ring = wanted(ring.packed, features::RING_PACKED) | wanted(ring.in_order, features::IN_ORDER);
        let negotiated = Negotiated(features::VERSION_1 | features::MRG_RXBUF | features::EXCHANGE | ring);
        let mut layout = || Queue::layout(&mut arena, SIZE, negotiated).unwrap();
        let (to, from) = (layout(), layout());
        let joined = Joined::find(&seat, port, &memory).unwrap();
        let mut enqueue = Enqueue::new(memory.clone(), &to).unwrap();
        enqueue.allow_exchange(joined.clone());
        let mut dequeue = Dequeue::new(memory, &from).unwrap();
        dequeue.allow_exchange(joined);
        let (receive, transmit) = (Queue::new(&arena, &to).unwrap(), Queue::new(&arena, &from).unwrap());
        Member { _arena: arena, seat, geometry, receive, transmit, enqueue, dequeue }
    }

    fn offer(&mut self, places: &[BufferRange], writable: bool) {
        let queue = if writable { &mut self.receive } else { &mut self.transmit };
        while queue.pop_used().unwrap().is_some() {}
        for BufferRange { buffer, shift, len } in places.iter().take(queue.free().into()) {
            let number = u16::from(*buffer) % (MEMBERS as u16 * OWN + 1);
            let shift = if *shift < 200 { 0 } else { i64::from(*shift) - 228 };
            let addr = (AT + self.geometry.offset(number)).wrapping_add_signed(shift);
            queue.add(&[Buffer { addr, len: (*len).into(), writable }]).unwrap();
        }
        queue.publish();
    }
}

pub fn run(rings: &[Ring; MEMBERS], steps: &[Step]) {
    let geometry = Geometry::new(MEMBERS as u16 * OWN, 300).unwrap();
    let options = GroupOptions { ports: MEMBERS as u16, geometry, threshold: Some(60), huge: false };
    let group = Group::new(options).unwrap();
    let member = |at: usize| Member::new(&group, at as u16, rings[at]);
    let mut members: Vec<Option<Member>> = (0..MEMBERS).map(|at| Some(member(at))).collect();
    let mut storage = Box::<BurstStorage>::default();
    for step in steps {
        let at = |who: u8| usize::from(who) % MEMBERS;
        match step {
            Step::Send { who, places } => members[at(*who)].as_mut().unwrap().offer(places, false),
            Step::Post { who, places } => members[at(*who)].as_mut().unwrap().offer(places, true),
            Step::Forward { from, to, may_exchange } => {
                let [from, to] = [from, to].map(|who| members[at(*who)].as_ref().unwrap());
                let mut burst = storage.start();
                // The rings are right, and so it is no fault of theirs.
                from.dequeue.receive(&mut burst).unwrap();
                let frames = burst.frames();
                assert!(frames.as_slice().iter().all(|frame| frame.len() <= MAX_FRAME));
                let done = to.enqueue.transmit(if *may_exchange { frames.exchangeable() } else { frames }).unwrap();
                assert!(done.frames as usize <= frames.len());
                from.dequeue.recycle();
            }
            Step::Restart { who } => {
                members[at(*who)] = None;
                members[at(*who)] = Some(member(at(*who)));
            }
        }
        // However they lie, each has as many buffers as it was given, and no two have the same.
        let mut all: Vec<u16> = Vec::new();
        for member in members.iter().flatten() {
            let own = member.seat.buffers();
            assert_eq!(own.len(), usize::from(OWN));
            all.extend(own);
        }
        all.sort_unstable();
        assert!(all.into_iter().eq(0..MEMBERS as u16 * OWN));
    }
}
