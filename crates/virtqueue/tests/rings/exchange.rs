//! Buffers of a group change hands: each has one owner at any time, and frames arrive whole and in order.

use crate::support::frame;
use packet::BurstStorage;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use virtqueue::device::{Delivered, Dequeue, Enqueue};
use virtqueue::driver::{Buffer, Queue};
use virtqueue::exchange::{Copied, Geometry, Grant, Group, GroupOptions, Joined, Seat};
use virtqueue::memory::{Arena, Memory, Region};
use virtqueue::{NET_HEADER, Negotiated, features};

/// Guest address of the group's memory.
const AT: u64 = 1 << 40;

/// Bytes of the longest frame.
const LONGEST: usize = 300;

/// Descriptors of each queue.
const SIZE: u16 = 8;

/// Buffers of each function: more than its queues hold.
const OWN: u16 = 24;

/// Kinds of rings.
const RINGS: [u64; 4] = [0, features::RING_PACKED, features::IN_ORDER, features::RING_PACKED | features::IN_ORDER];

fn group(functions: u16, threshold: u32) -> Arc<Group> {
    let geometry = Geometry::new(functions * OWN, LONGEST as u32).unwrap();
    Group::new(GroupOptions { ports: functions, geometry, threshold: Some(threshold), huge: false }).unwrap()
}

/// A function of the group, and the switch's ends of its queues.
struct Function {
    /// Holds the rings.
    _arena: Arena,
    memory: Arc<Memory>,
    seat: Option<Arc<Seat>>,
    geometry: Geometry,
    /// Its free buffers; those posted and those sent, by the id of the chain.
    free: Vec<u16>,
    posted: HashMap<u16, u16>,
    sent: HashMap<u16, u16>,
    receive: Queue,
    transmit: Queue,
    enqueue: Enqueue,
    dequeue: Dequeue,
    received: Vec<Vec<u8>>,
}

impl Function {
    /// Joins the group at `port`; without `joins` it has the same memory but does not know of the group.
    fn new(group: &Arc<Group>, port: u16, ring: u64, joins: bool) -> Function {
        let seat = group.join(port.into(), OWN).unwrap();
        let Grant { geometry, buffers } = Grant::decode(&Grant::of(&seat).encode()).unwrap();
        let mut arena = Arena::new(1 << 20, false).unwrap();
        let region = Region {
            guest_addr: AT,
            user_addr: AT,
            len: geometry.bytes().next_multiple_of(4096),
            offset: 0,
            file: group.file().clone(),
        };
        let memory = Arc::new(arena.memory().with_region(region).unwrap());
        let bits =
            [(true, features::VERSION_1), (true, ring), (joins, features::EXCHANGE), (true, features::MRG_RXBUF)];
        let negotiated = Negotiated(bits.iter().filter(|bit| bit.0).map(|bit| bit.1).sum());
        let mut layout = || Queue::layout(&mut arena, SIZE, negotiated).unwrap();
        let (to, from) = (layout(), layout());
        let (mut enqueue, mut dequeue) =
            (Enqueue::new(memory.clone(), &to).unwrap(), Dequeue::new(memory.clone(), &from).unwrap());
        let (receive, transmit) = (Queue::new(&arena, &to).unwrap(), Queue::new(&arena, &from).unwrap());
        if joins {
            let joined = Joined::find(&seat, port, &memory).expect("it shares the group's memory");
            dequeue.allow_exchange(joined.clone());
            enqueue.allow_exchange(joined);
        }
        assert_eq!(buffers.len(), usize::from(OWN));
        let (posted, sent, received) = (HashMap::new(), HashMap::new(), vec![]);
        Function {
            _arena: arena,
            memory,
            seat: Some(seat),
            geometry,
            free: buffers,
            posted,
            sent,
            receive,
            transmit,
            enqueue,
            dequeue,
            received,
        }
    }

    fn address(&self, buffer: u16) -> u64 {
        AT + self.geometry.offset(buffer)
    }

    fn bytes(&self, buffer: u16, len: usize) -> *mut u8 {
        let header = self.memory.translate(self.address(buffer), u64::from(NET_HEADER) + len as u64).unwrap();
        header.as_ptr().wrapping_add(NET_HEADER as usize)
    }

    /// Sends a frame, `moved` bytes behind the place where it can be exchanged. Returns false if it can't.
    fn send(&mut self, bytes: &[u8], moved: usize) -> bool {
        if self.transmit.free() == 0 {
            return false;
        }
        let Some(buffer) = self.free.pop() else { return false };
        // SAFETY: it is our buffer, and the test has one thread.
        unsafe {
            self.bytes(buffer, bytes.len() + moved).add(moved).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
        self.send_at(self.address(buffer) + moved as u64, buffer, bytes.len());
        true
    }

    fn send_at(&mut self, addr: u64, buffer: u16, len: usize) {
        let id = self.transmit.add(&[Buffer { addr, len: NET_HEADER + len as u32, writable: false }]).unwrap();
        assert_eq!(self.sent.insert(id, buffer), None);
        self.transmit.publish();
    }

    fn post(&mut self, count: usize) {
        for _ in 0..count.min(self.receive.free().into()) {
            let Some(buffer) = self.free.pop() else { return };
            let buffers = [Buffer { addr: self.address(buffer), len: self.geometry.room(), writable: true }];
            let id = self.receive.add(&buffers).unwrap();
            assert_eq!(self.posted.insert(id, buffer), None);
        }
        self.receive.publish();
    }

    /// Takes back buffers that were sent.
    fn reclaim(&mut self) {
        while let Some(used) = self.transmit.pop_used().unwrap() {
            let own = self.sent.remove(&used.id).expect("it was sent");
            self.free.push(used.instead.unwrap_or(own));
        }
    }

    /// Receives frames into its memory.
    fn collect(&mut self) {
        while let Some(used) = self.receive.pop_used().unwrap() {
            let own = self.posted.remove(&used.id).expect("it was posted");
            let buffer = used.instead.unwrap_or(own);
            let mut frame = vec![0; (used.len - NET_HEADER) as usize];
            // SAFETY: as in `send`.
            unsafe { self.bytes(buffer, frame.len()).copy_to_nonoverlapping(frame.as_mut_ptr(), frame.len()) };
            self.received.push(frame);
            self.free.push(buffer);
        }
    }

    /// Returns all buffers that it knows to have.
    fn known(&self) -> Vec<u16> {
        let mut known: Vec<u16> =
            self.free.iter().chain(self.posted.values()).chain(self.sent.values()).copied().collect();
        known.sort_unstable();
        known
    }

    fn sorted_seat(&self) -> Vec<u16> {
        self.seat.as_ref().unwrap().buffers()
    }
}

/// Forwards a burst, as a patch does, or as if others read its frames later.
fn forward(from: &Function, to: &Function, may_exchange: bool) -> Delivered {
    let mut storage = Box::<BurstStorage>::default();
    let mut burst = storage.start();
    from.dequeue.receive(&mut burst).unwrap();
    let frames = if may_exchange { burst.frames().exchangeable() } else { burst.frames() };
    let done = to.enqueue.transmit(frames).unwrap();
    from.dequeue.recycle();
    done
}

fn each(test: impl Fn(u64)) {
    RINGS.into_iter().for_each(test);
}

#[test]
fn a_frame_changes_hands_and_nothing_is_copied() {
    each(|ring| {
        let group = group(2, 0);
        let mut functions = [0, 1].map(|port| Function::new(&group, port, ring, true));
        functions[1].post(SIZE.into());
        let sent: Vec<_> = (0..5).map(|number| frame(number, 60 + 40 * number as usize)).collect();
        let before: Vec<u16> = functions[0].free.iter().rev().take(5).copied().collect();
        assert!(sent.iter().all(|frame| functions[0].send(frame, 0)));
        assert_eq!(forward(&functions[0], &functions[1], true).frames, 5);
        functions[0].reclaim();
        functions[1].collect();
        assert_eq!(functions[1].received, sent);
        assert!(before.iter().all(|buffer| functions[1].free.contains(buffer) && !functions[0].free.contains(buffer)));
        assert_eq!(group.counts(0, 1).exchanged(), 5);
        for function in &functions {
            assert_eq!((function.known().len(), function.known()), (OWN.into(), function.sorted_seat()));
        }
    });
}

#[test]
fn other_frames_are_copied_and_the_reasons_counted() {
    each(|ring| {
        let group = group(3, 100);
        let mut functions = [true, true, false].map(|joins| (0u16, joins));
        (0..).zip(&mut functions).for_each(|(port, function)| function.0 = port);
        let mut functions = functions.map(|(port, joins)| Function::new(&group, port, ring, joins));
        functions[1].post(SIZE.into());
        let frames: Vec<_> =
            [99, 100, 100, 100, 100].into_iter().zip(0..).map(|(len, number)| frame(number, len)).collect();
        assert!(
            functions[0].send(&frames[0], 0) && functions[0].send(&frames[1], 4) && functions[0].send(&frames[2], 0)
        );
        forward(&functions[0], &functions[1], true);
        assert!(functions[0].send(&frames[3], 0));
        forward(&functions[0], &functions[1], false);
        assert!(functions[2].send(&frames[4], 0));
        forward(&functions[2], &functions[1], true);
        functions[1].collect();
        functions[0].reclaim();
        functions[2].reclaim();
        assert_eq!(functions[1].received, frames);
        let counts = [0, 3].map(|from| group.counts(from, 1));
        let copied = |at: usize| Copied::ALL.map(|reason| counts[at].copied(reason));
        assert_eq!((counts[0].exchanged(), copied(0)), (1, [1, 1, 1, 0, 0, 0]));
        assert_eq!((counts[1].exchanged(), copied(1)), (0, [0, 0, 0, 0, 1, 0]));
        assert!(functions.iter().all(|function| function.known() == function.sorted_seat()));
    });
}

#[test]
fn a_member_that_lies_gets_no_more_buffers_than_it_gave() {
    each(|ring| {
        let group = group(2, 0);
        let mut functions = [0, 1].map(|port| Function::new(&group, port, ring, true));
        let theirs = functions[1].sorted_seat();
        functions[1].post(SIZE.into());
        let own = functions[0].free[0];
        // The same buffer twice, one of the other's, a part of one, and one behind the last.
        let behind =
            AT + functions[0].geometry.offset(functions[0].geometry.count() - 1) + functions[0].geometry.stride();
        let lies = [
            functions[0].address(own),
            functions[0].address(own),
            functions[0].address(theirs[0]),
            functions[0].address(own) + 64,
        ];
        lies.into_iter().zip(100..).for_each(|(addr, fake)| functions[0].send_at(addr, fake, 60));
        let unmapped = behind > AT + functions[0].geometry.bytes().next_multiple_of(4096) - 100;
        if !unmapped {
            functions[0].send_at(behind, 104, 60);
        }
        let delivered = forward(&functions[0], &functions[1], true).frames;
        assert_eq!(delivered, 4 + u32::from(!unmapped));
        assert_eq!(group.counts(0, 1).exchanged(), 1);
        functions[1].collect();
        assert_eq!(functions[1].known(), functions[1].sorted_seat());
        assert_eq!(functions[0].sorted_seat().len(), usize::from(OWN));
    });
}

#[test]
fn a_posted_buffer_that_is_not_the_members_own_is_filled_by_a_copy() {
    each(|ring| {
        let group = group(2, 0);
        let mut functions = [0, 1].map(|port| Function::new(&group, port, ring, true));
        let theirs = functions[0].free[0];
        let addr = functions[1].address(theirs);
        let id = functions[1].receive.add(&[Buffer { addr, len: 200, writable: true }]).unwrap();
        functions[1].posted.insert(id, theirs);
        functions[1].receive.publish();
        assert!(functions[0].send(&frame(1, 60), 0));
        forward(&functions[0], &functions[1], true);
        assert_eq!(group.counts(0, 1).copied(Copied::Foreign), 1);
        functions[0].reclaim();
        assert_eq!(functions[0].known(), functions[0].sorted_seat());
    });
}

#[test]
fn the_buffers_of_a_function_that_leaves_are_free_for_another() {
    let group = group(2, 0);
    let mut one = Function::new(&group, 0, 0, true);
    assert_eq!((group.free(), group.functions()), (usize::from(OWN), 1));
    let refused = group.join(7, OWN + 1).unwrap_err();
    assert!(refused.to_string().contains("25 buffers, and 24 of the group's 48 are free"), "{refused}");
    let again = group.join(0, OWN).unwrap();
    assert!(Arc::ptr_eq(&again, one.seat.as_ref().unwrap()), "by the same token, it is the same function");
    let had = one.sorted_seat();
    drop(again);
    one.seat = None;
    assert_eq!(group.free(), usize::from(OWN), "its queues still use them");
    drop(one);
    assert_eq!((group.free(), group.functions()), (2 * usize::from(OWN), 0));
    let next = group.join(0, OWN).unwrap();
    assert!(next.buffers().iter().all(|buffer| !had.contains(buffer)), "those freed last are used last");
    assert_eq!(group.join(8, 0).unwrap_err().wanted, 0);
}

#[test]
fn a_queue_without_the_whole_memory_of_the_group_does_not_exchange() {
    let group = group(2, 0);
    let seat = group.join(1, 1).unwrap();
    let arena = Arena::new(1 << 20, false).unwrap();
    assert!(Joined::find(&seat, 0, arena.memory()).is_none());
    let region = |len, offset| Region { guest_addr: AT, user_addr: AT, len, offset, file: group.file().clone() };
    for region in [region(4096, 0), region(4096, 4096)] {
        assert!(Joined::find(&seat, 0, &arena.memory().with_region(region).unwrap()).is_none());
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Sends frames of these lengths, at their usual place or behind it.
    Send {
        from: usize,
        frames: Vec<(usize, bool)>,
    },
    Post {
        at: usize,
        count: usize,
    },
    Forward {
        from: usize,
        to: usize,
        may_exchange: bool,
    },
    Reclaim {
        at: usize,
    },
    Collect {
        at: usize,
    },
    /// The function leaves, and another joins in its place.
    Restart {
        at: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let function = || 0..3usize;
    let frames = || prop::collection::vec((14..=LONGEST - 64, prop::bool::weighted(0.1)), 1..6);
    prop_oneof![
        4 => (function(), frames()).prop_map(|(from, frames)| Step::Send { from, frames }),
        4 => (function(), 1..8usize).prop_map(|(at, count)| Step::Post { at, count }),
        6 => (function(), function(), prop::bool::weighted(0.8)).prop_map(|(from, to, may_exchange)| Step::Forward { from, to, may_exchange }),
        3 => function().prop_map(|at| Step::Reclaim { at }),
        3 => function().prop_map(|at| Step::Collect { at }),
        1 => function().prop_map(|at| Step::Restart { at }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 300 }, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_buffer_has_one_owner_and_frames_arrive_in_order(
        rings in prop::array::uniform3(prop::sample::select(&RINGS)),
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 20 } else { 120 }),
    ) {
        let group = group(3, 60);
        let mut functions: Vec<_> = (0..3).map(|port| Function::new(&group, port, rings[usize::from(port)], true)).collect();
        // Frames on their way: sent by each, and delivered to each.
        let (mut sent, mut due) = (vec![Vec::new(); 3], vec![Vec::new(); 3]);
        let mut number = 0;
        for step in steps {
            match step {
                Step::Send { from, frames } => for (len, moved) in frames {
                    number += 1;
                    if functions[from].send(&frame(number, len), if moved { 64 } else { 0 }) {
                        sent[from].push(frame(number, len));
                    }
                },
                Step::Post { at, count } => functions[at].post(count),
                Step::Forward { from, to, may_exchange } => {
                    let done = forward(&functions[from], &functions[to], may_exchange);
                    let taken: Vec<_> = sent[from].drain(..).collect();
                    due[to].extend_from_slice(&taken[..done.frames as usize]);
                }
                Step::Reclaim { at } => functions[at].reclaim(),
                Step::Collect { at } => {
                    functions[at].collect();
                    prop_assert_eq!(std::mem::take(&mut functions[at].received), std::mem::take(&mut due[at]));
                }
                Step::Restart { at } => {
                    functions.remove(at);
                    (sent[at], due[at]) = (vec![], vec![]);
                    functions.insert(at, Function::new(&group, at as u16, rings[at], true));
                }
            }
            prop_assert!(functions.iter().all(|function| function.sorted_seat().len() == usize::from(OWN)));
        }
        for at in 0..3 {
            functions[at].reclaim();
            functions[at].collect();
            prop_assert_eq!(&functions[at].received, &due[at]);
            prop_assert_eq!(functions[at].known(), functions[at].sorted_seat());
        }
        let mut all: Vec<u16> = functions.iter().flat_map(Function::known).collect();
        all.sort_unstable();
        prop_assert_eq!(all, (0..3 * OWN).collect::<Vec<_>>());
    }
}
