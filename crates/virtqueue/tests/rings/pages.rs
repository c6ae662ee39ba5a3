//! Pages change places instead of frames being copied: frames arrive whole and in order, and no function sees more than was sent to it.

use crate::support::frame;
use packet::BurstStorage;
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use virtqueue::device::{Delivered, Dequeue, Enqueue};
use virtqueue::driver::{Buffer, Queue};
use virtqueue::exchange::{Copied, Grid, PageMember, PagePair, PagePlace, Pages, Skipped};
use virtqueue::memory::{Arena, Memory, Region};
use virtqueue::{NET_HEADER, Negotiated, features};

/// Guest address of a function's area.
const AT: u64 = 1 << 40;
const PAGE: u64 = 4096;

/// Where buffers begin in their pages, and frames behind their headers.
const HEADROOM: u64 = 128;
const ROOM: u32 = (PAGE - HEADROOM) as u32;

/// Descriptors of each queue, and pages of each function: more than its queues hold.
const SIZE: u16 = 16;
const OWN: u32 = 48;

/// An area whose pages are exchanged by copies. All bytes of a page besides the frame become zero.
#[derive(Debug)]
struct Area {
    id: u64,
    region: Region,
    memory: Memory,
    held: Mutex<HashSet<u32>>,
    refuses: Mutex<bool>,
    calls: Mutex<usize>,
}

impl Area {
    fn new(id: u64) -> Arc<Area> {
        let file = memfd_create("area", MemfdFlags::CLOEXEC).unwrap();
        let len = u64::from(OWN) * PAGE;
        ftruncate(&file, len).unwrap();
        let region = Region { guest_addr: AT, user_addr: AT, len, offset: 0, file: Arc::new(file) };
        let memory = Memory::map(vec![region.clone()]).unwrap();
        Arc::new(Area {
            id,
            region,
            memory,
            held: Mutex::default(),
            refuses: Mutex::default(),
            calls: Mutex::default(),
        })
    }

    fn read(&self, page: u32) -> [u8; PAGE as usize] {
        let mut bytes = [0; PAGE as usize];
        let at = self.memory.translate(AT + u64::from(page) * PAGE, PAGE).unwrap();
        // SAFETY: the page is mapped, and the test has one thread.
        unsafe { at.as_ptr().copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        bytes
    }

    fn write(&self, page: u32, from: u64, bytes: &[u8]) {
        let at = self.memory.translate(AT + u64::from(page) * PAGE + from, bytes.len() as u64).unwrap();
        // SAFETY: as in `read`.
        unsafe { at.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

impl Pages for Area {
    fn id(&self) -> u64 {
        self.id
    }

    fn exchange(&self, there: &dyn Pages, pairs: &[PagePair]) -> Option<Skipped> {
        let there = there.as_any().downcast_ref::<Area>().unwrap();
        *self.calls.lock().unwrap() += 1;
        let mut seen = [HashSet::new(), HashSet::new()];
        let mut is_new = |pair: &PagePair| seen[0].insert(pair.here) & seen[1].insert(pair.there);
        let is_right = pairs.iter().all(|pair| pair.here < OWN && pair.there < OWN && is_new(pair));
        if !is_right || self.id == there.id || *self.refuses.lock().unwrap() {
            return None;
        }
        let mut skipped = Skipped::default();
        for (at, pair) in pairs.iter().enumerate() {
            if self.held.lock().unwrap().contains(&pair.here) || there.held.lock().unwrap().contains(&pair.there) {
                skipped.insert(at);
                continue;
            }
            let (start, end) = (usize::from(pair.start), usize::from(pair.start + pair.len));
            let mut sent = self.read(pair.here);
            sent[..start].fill(0);
            sent[end..].fill(0);
            there.write(pair.there, 0, &sent);
            self.write(pair.here, 0, &[0; PAGE as usize]);
        }
        Some(skipped)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A function, and the switch's ends of its queues.
struct Function {
    /// Holds the rings.
    _arena: Arena,
    area: Arc<Area>,
    /// The byte that it fills the rest of its pages with.
    secret: u8,
    free: Vec<u32>,
    posted: HashMap<u16, u32>,
    sent: HashMap<u16, Vec<u32>>,
    receive: Queue,
    transmit: Queue,
    enqueue: Enqueue,
    dequeue: Dequeue,
    received: Vec<Vec<u8>>,
}

impl Function {
    fn new(grid: &Arc<Grid>, port: u16, packed: bool, area: &Arc<Area>) -> Function {
        let mut arena = Arena::new(1 << 20, false).unwrap();
        let memory = Arc::new(arena.memory().with_region(area.region.clone()).unwrap());
        let bits = [
            (true, features::VERSION_1),
            (packed, features::RING_PACKED),
            (true, features::EXCHANGE),
            (true, features::MRG_RXBUF),
        ];
        let negotiated = Negotiated(bits.iter().filter(|bit| bit.0).map(|bit| bit.1).sum());
        let mut layout = || Queue::layout(&mut arena, SIZE, negotiated).unwrap();
        let (to, from) = (layout(), layout());
        let mut enqueue = Enqueue::new(memory.clone(), &to).unwrap();
        let mut dequeue = Dequeue::new(memory.clone(), &from).unwrap();
        let place = PagePlace { grid: grid.clone(), port, threshold: 60 };
        let member = Arc::new(PageMember::find(area.clone(), &area.region, &memory, place).expect("it is mapped"));
        dequeue.allow_pages(&member);
        enqueue.allow_pages(member);
        let (receive, transmit) = (Queue::new(&arena, &to).unwrap(), Queue::new(&arena, &from).unwrap());
        let secret = 0xa0 + port as u8;
        let (posted, sent, received) = (HashMap::new(), HashMap::new(), vec![]);
        let (area, free) = (area.clone(), (0..OWN).collect());
        Function { _arena: arena, area, secret, free, posted, sent, receive, transmit, enqueue, dequeue, received }
    }

    /// Sends a frame, `moved` bytes behind the place where it can be exchanged. Returns false if it can't.
    fn send(&mut self, bytes: &[u8], moved: u64) -> bool {
        let first = bytes.len().min((ROOM - NET_HEADER) as usize - moved as usize);
        let pieces: Vec<&[u8]> = std::iter::once(&bytes[..first]).chain(bytes[first..].chunks(ROOM as usize)).collect();
        if usize::from(self.transmit.free()) < pieces.len() || self.free.len() < pieces.len() {
            return false;
        }
        let pages: Vec<u32> = pieces.iter().map(|_| self.free.pop().unwrap()).collect();
        let mut buffers = vec![];
        for (i, (&page, piece)) in pages.iter().zip(&pieces).enumerate() {
            let lead = if i == 0 { moved } else { 0 };
            let header = if i == 0 { u64::from(NET_HEADER) } else { 0 };
            self.area.write(page, 0, &[self.secret; PAGE as usize]);
            self.area.write(page, HEADROOM + lead + header, piece);
            let addr = AT + u64::from(page) * PAGE + HEADROOM + lead;
            buffers.push(Buffer { addr, len: header as u32 + piece.len() as u32, writable: false });
        }
        let id = self.transmit.add(&buffers).unwrap();
        assert_eq!(self.sent.insert(id, pages), None);
        self.transmit.publish();
        true
    }

    /// Sends the last frame's buffer again, against the rules.
    fn send_again(&mut self, bytes: &[u8]) -> bool {
        if self.transmit.free() < 2 || !self.send(bytes, 0) {
            return false;
        }
        let page = self.sent.values().flatten().copied().find(|page| {
            let at = (HEADROOM + u64::from(NET_HEADER)) as usize;
            self.area.read(*page)[at..at + bytes.len()] == *bytes
        });
        let addr = AT + u64::from(page.unwrap()) * PAGE + HEADROOM;
        let id = self.transmit.add(&[Buffer { addr, len: NET_HEADER + bytes.len() as u32, writable: false }]).unwrap();
        self.sent.insert(id, vec![]);
        self.transmit.publish();
        true
    }

    fn post(&mut self, count: usize) {
        for _ in 0..count.min(self.receive.free().into()) {
            let Some(page) = self.free.pop() else { return };
            self.area.write(page, 0, &[self.secret; PAGE as usize]);
            let addr = AT + u64::from(page) * PAGE + HEADROOM;
            let id = self.receive.add(&[Buffer { addr, len: ROOM, writable: true }]).unwrap();
            assert_eq!(self.posted.insert(id, page), None);
        }
        self.receive.publish();
    }

    fn reclaim(&mut self) {
        while let Some(used) = self.transmit.pop_used().unwrap() {
            assert_eq!(used.instead, None);
            let pages = self.sent.remove(&used.id).expect("it was sent");
            for &page in &pages {
                let bytes = self.area.read(page);
                assert!(bytes == [0; PAGE as usize] || bytes[..128] == [self.secret; 128], "a page of somebody else");
            }
            self.free.extend(pages);
        }
    }

    /// Receives frames, and looks at the bytes beside them.
    fn collect(&mut self) {
        while let Some((mut frame, buffers)) = self.piece(NET_HEADER as usize) {
            for _ in 1..buffers {
                frame.extend(self.piece(0).expect("all buffers of a frame are used at once").0);
            }
            self.received.push(frame);
        }
    }

    /// Returns the bytes behind `header` in the next used buffer, and the bytes in the place of the header.
    fn piece(&mut self, header: usize) -> Option<(Vec<u8>, u16)> {
        let used = self.receive.pop_used().unwrap()?;
        assert_eq!(used.instead, None);
        let page = self.posted.remove(&used.id).expect("it was posted");
        self.free.push(page);
        let (bytes, begin, end) = (self.area.read(page), HEADROOM as usize, HEADROOM as usize + used.len as usize);
        let around = [&bytes[..begin], &bytes[end..]].concat();
        assert!(around.iter().all(|byte| [0, self.secret].contains(byte)), "bytes beside the frame are somebody's");
        let buffers = u16::from_le_bytes([bytes[begin + 10], bytes[begin + 11]]);
        assert!(header == 0 || bytes[begin..begin + 10] == [0; 10] && buffers > 0, "the header is the switch's");
        Some((bytes[begin + header..end].to_vec(), buffers))
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

fn functions<const N: usize>(packed: bool) -> (Arc<Grid>, [Function; N]) {
    let grid = Arc::new(Grid::new(N as u16));
    let functions = std::array::from_fn(|port| Function::new(&grid, port as u16, packed, &Area::new(port as u64)));
    (grid, functions)
}

fn both(test: impl Fn(bool)) {
    [false, true].into_iter().for_each(test);
}

fn copied(grid: &Grid, from: u16, to: u16) -> Vec<(Copied, u64)> {
    let counts = grid.counts(from, to);
    Copied::ALL.map(|reason| (reason, counts.copied(reason))).into_iter().filter(|(_, count)| *count > 0).collect()
}

#[test]
fn short_and_jumbo_frames_change_hands_in_one_call() {
    both(|packed| {
        let (grid, [mut a, mut b]) = functions::<2>(packed);
        b.post(SIZE.into());
        let sent: Vec<_> = (0..).zip([60, 1500, 3956, 3957, 9018, 64]).map(|(n, len)| frame(n, len)).collect();
        assert!(sent.iter().all(|frame| a.send(frame, 0)));
        assert_eq!(forward(&a, &b, true).frames, 6);
        a.reclaim();
        b.collect();
        assert_eq!(b.received, sent);
        assert_eq!((grid.counts(0, 1).exchanged(), copied(&grid, 0, 1)), (6, vec![]));
        assert_eq!(*a.area.calls.lock().unwrap(), 1);
    });
}

#[test]
fn other_frames_are_copied_and_the_reasons_counted() {
    both(|packed| {
        let (grid, [mut a, mut b, mut c]) = functions::<3>(packed);
        b.post(SIZE.into());
        let frames: Vec<_> =
            (0..9).zip([59, 100, 5000, 100, 100, 100, 100, 100, 100]).map(|(n, len)| frame(n, len)).collect();
        // Too short; beside the place of the posted one, in one buffer and in two.
        assert!(a.send(&frames[0], 0) && a.send(&frames[1], 4) && a.send(&frames[2], 64));
        forward(&a, &b, true);
        assert!(a.send(&frames[3], 0));
        forward(&a, &b, false);
        // One of three is held.
        a.area.held.lock().unwrap().insert(*a.free.last().unwrap());
        assert!((4..6).all(|at| a.send(&frames[at], 0)));
        forward(&a, &b, true);
        *c.area.refuses.lock().unwrap() = true;
        assert!(c.send(&frames[6], 0));
        forward(&c, &b, true);
        // Of another exchange.
        let mut d = Function::new(&Arc::new(Grid::new(1)), 0, packed, &Area::new(9));
        assert!(d.send(&frames[7], 0));
        forward(&d, &b, true);
        // Another port of the same function.
        let mut own = Function::new(&grid, 0, packed, &b.area);
        own.free = vec![b.free.pop().unwrap()];
        assert!(own.send(&frames[8], 0));
        forward(&own, &b, true);
        b.collect();
        [&mut a, &mut c, &mut d].into_iter().for_each(Function::reclaim);
        assert_eq!(b.received, frames);
        use Copied::*;
        assert_eq!(grid.counts(0, 1).exchanged(), 1);
        assert_eq!(copied(&grid, 0, 1), [(Short, 1), (Shared, 1), (Foreign, 3), (Held, 1)]);
        assert_eq!(copied(&grid, 2, 1), [(Foreign, 1)]);
        assert_eq!(copied(&grid, 3, 1), [(Outside, 1)]);
    });
}

#[test]
fn a_buffer_that_was_sent_twice_is_copied_with_its_burst() {
    both(|packed| {
        let (grid, [mut a, mut b]) = functions::<2>(packed);
        b.post(SIZE.into());
        let frames = [frame(1, 200), frame(2, 100), frame(2, 100)];
        assert!(a.send(&frames[0], 0) && a.send_again(&frames[1]));
        forward(&a, &b, true);
        b.collect();
        assert_eq!(b.received, frames);
        assert_eq!(copied(&grid, 0, 1), [(Copied::Foreign, 3)]);
    });
}

#[test]
fn frames_wait_for_buffers_as_others_do() {
    both(|packed| {
        let (grid, [mut a, mut b]) = functions::<2>(packed);
        b.post(4);
        assert!(a.send(&frame(0, 9018), 0) && a.send(&frame(1, 9018), 0) && a.send(&frame(2, 60), 0));
        let done = forward(&a, &b, true);
        assert_eq!((done.frames, done.no_buffers), (1, 2));
        b.collect();
        assert_eq!((b.received, grid.counts(0, 1).exchanged()), (vec![frame(0, 9018)], 1));
    });
}

#[derive(Clone, Debug)]
enum Step {
    /// Sends frames of these lengths, at their usual place or behind it.
    Send {
        from: usize,
        frames: Vec<(usize, bool)>,
    },
    /// Sends a buffer twice.
    Lie {
        from: usize,
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
    /// Somebody holds these pages, and no others.
    Hold {
        at: usize,
        pages: HashSet<u32>,
    },
    Refuse {
        at: usize,
        refuses: bool,
    },
    /// The function leaves, and another comes in its place.
    Restart {
        at: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let function = || 0..3usize;
    let len = prop_oneof![14..300usize, 3900..4100usize, 14..9100usize];
    let frames = prop::collection::vec((len, prop::bool::weighted(0.1)), 1..6);
    prop_oneof![
        5 => (function(), frames).prop_map(|(from, frames)| Step::Send { from, frames }),
        1 => function().prop_map(|from| Step::Lie { from }),
        5 => (function(), 1..16usize).prop_map(|(at, count)| Step::Post { at, count }),
        6 => (function(), function(), prop::bool::weighted(0.8)).prop_map(|(from, to, may_exchange)| Step::Forward { from, to, may_exchange }),
        3 => function().prop_map(|at| Step::Reclaim { at }),
        3 => function().prop_map(|at| Step::Collect { at }),
        1 => (function(), prop::collection::hash_set(0..OWN, 0..20)).prop_map(|(at, pages)| Step::Hold { at, pages }),
        1 => (function(), prop::bool::weighted(0.3)).prop_map(|(at, refuses)| Step::Refuse { at, refuses }),
        1 => function().prop_map(|at| Step::Restart { at }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn frames_arrive_whole_and_in_order_and_nothing_else_does(
        packed in prop::array::uniform3(any::<bool>()),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let grid = Arc::new(Grid::new(3));
        let mut areas = 0;
        let mut start = |port: usize| {
            areas += 1;
            Function::new(&grid, port as u16, packed[port], &Area::new(areas))
        };
        let mut functions: Vec<_> = (0..3).map(&mut start).collect();
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
                Step::Lie { from } => {
                    number += 1;
                    if functions[from].send_again(&frame(number, 100)) {
                        sent[from].extend([frame(number, 100), frame(number, 100)]);
                    }
                }
                Step::Post { at, count } => functions[at].post(count),
                // A burst takes all that was sent, or, as frames are long, leaves some for the next one.
                Step::Forward { from, to, may_exchange } => {
                    let before = functions[from].dequeue.has_work();
                    let mut storage = Box::<BurstStorage>::default();
                    let mut burst = storage.start();
                    functions[from].dequeue.receive(&mut burst).unwrap();
                    prop_assert_eq!(before, !burst.is_empty());
                    let taken: Vec<_> = sent[from].drain(..burst.len()).collect();
                    let frames = burst.frames();
                    let frames = if may_exchange { frames.exchangeable() } else { frames };
                    let done = functions[to].enqueue.transmit(frames).unwrap();
                    functions[from].dequeue.recycle();
                    prop_assert_eq!((done.too_long, done.over_budget), (0, 0));
                    due[to].extend_from_slice(&taken[..done.frames as usize]);
                }
                Step::Reclaim { at } => functions[at].reclaim(),
                Step::Collect { at } => {
                    functions[at].collect();
                    prop_assert_eq!(std::mem::take(&mut functions[at].received), std::mem::take(&mut due[at]));
                }
                Step::Hold { at, pages } => *functions[at].area.held.lock().unwrap() = pages,
                Step::Refuse { at, refuses } => *functions[at].area.refuses.lock().unwrap() = refuses,
                Step::Restart { at } => {
                    functions.remove(at);
                    (sent[at], due[at]) = (vec![], vec![]);
                    functions.insert(at, start(at));
                }
            }
        }
        for (function, due) in functions.iter_mut().zip(&due) {
            function.reclaim();
            function.collect();
            prop_assert_eq!(&function.received, due);
        }
    }
}
