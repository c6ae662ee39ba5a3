//! A hostile guest and a hostile NIC, and the switch between them: it splices entries from the rings of the one to those of the other.
//!
//! Each word of a ring is read once, so it makes no difference whether a peer changes one that was not yet read between two reads or
//! before all of them. What can make a difference is a change after a write: a log of the switch's writes lets the peers act then.

use crate::backend::{self, Backend, Cursor};
use crate::device::{self, Guest, deliver};
use crate::guest::{Length, assert_shared, memory};
use crate::switch::{Filler, LEND, Peer, Sender, Work};
use arbitrary::Arbitrary;
use packet::BurstStorage;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use virtqueue::device::{Dequeue, Enqueue};
use virtqueue::driver::Queue;
use virtqueue::memory::{Arena, DirtyLog, Memory};
use virtqueue::{Format, QueueConfig};

#[derive(Arbitrary, Debug)]
pub struct Setup {
    guest: device::Setup,
    is_guest_packed: bool,
    nic: backend::Setup,
}

/// An action of a peer. Of the NIC's queues, false is the one that it fills buffers of.
#[derive(Arbitrary, Debug, Clone)]
pub enum Act {
    Guest(device::Move),
    Nic(bool, backend::Move),
}

/// How a round goes.
#[derive(Arbitrary, Debug)]
pub struct Round {
    /// Most frames that are spliced; none if all go the general way.
    splices: Option<u8>,
    /// Marks this loan among those lent in the general way, or keeps this number of chains.
    number: u8,
    /// Actions of the peers, one after each write of the switch.
    meanwhile: Vec<Act>,
}

#[derive(Arbitrary, Debug)]
pub enum Step {
    Act(Act),
    /// Frames of the NIC to the guest, or of the guest to the NIC.
    ToGuest(Round),
    FromGuest(Round),
    /// Delivers frames of another port to the guest, cut into segments.
    Deliver(Vec<(Length, u16)>),
    /// Takes all buffers, or all chains, back from the NIC, and lets it start again.
    Recall {
        from_guest: bool,
    },
    /// Restarts the guest's receive queue, while the NIC has buffers of the one before.
    Restart,
}

pub fn run(setup: &Setup, steps: &[Step]) {
    backend::with_arena(|arena| {
        let memory = memory();
        let configs = [false, true].map(|queue| setup.nic.config(queue));
        let peers = RefCell::new(Peers {
            memory,
            guest: Guest::new(memory, &setup.guest, setup.is_guest_packed),
            nics: configs.map(|config| Backend::new(arena.memory(), config)),
            configs,
            meanwhile: VecDeque::new(),
            lent: HashMap::new(),
            knows_all: true,
            watches: false,
        });
        let Some(mut switch) = Switch::new(&peers, arena) else { return };
        for step in steps {
            switch.make(step);
            switch.check();
        }
        switch.recall_buffers();
        switch.recall_chains();
        if let Some(queue) = &switch.to_guest {
            queue.close();
            assert!(queue.posted() == 0 || !switch.has_lent, "the guest has all buffers");
        }
    });
}

/// The guest, the NIC, and the buffers of the one that the other has.
struct Peers<'m> {
    memory: &'m Arc<Memory>,
    guest: Guest<'m>,
    nics: [Backend<'m>; 2],
    configs: [QueueConfig; 2],
    /// Actions to come.
    meanwhile: VecDeque<Act>,
    /// How many times a buffer at this address and of this length is lent: once for each chain of it that the guest offered.
    lent: HashMap<(u64, u64), usize>,
    /// Whether these are all that the NIC has.
    knows_all: bool,
    /// Whether the switch writes nothing as long as a buffer now, and tells of each buffer that comes back.
    watches: bool,
}

impl Peers<'_> {
    fn act(&mut self, act: &Act) {
        match act {
            Act::Guest(step) => self.guest.make(step),
            Act::Nic(queue, step) => self.nics[usize::from(*queue)].make(step),
        }
    }
}

/// The log of the switch's writes to the guest's memory.
#[derive(Clone, Copy)]
struct Writes<'p, 'm>(&'p RefCell<Peers<'m>>);

impl DirtyLog for Writes<'_, '_> {
    fn mark(&self, addr: u64, len: u64) {
        let peers = &mut *self.0.borrow_mut();
        if peers.watches && peers.knows_all && len >= LEND.into() {
            let at = peers.memory.translate(addr, len).expect("a buffer is mapped").as_ptr().addr() as u64;
            let lent = peers.lent.get_mut(&(at, len)).filter(|lent| **lent > 0);
            *lent.expect("what comes back was lent, and has not come back before") -= 1;
        }
        if let Some(act) = peers.meanwhile.pop_front() {
            peers.act(&act);
        }
    }
}

struct Switch<'p, 'm> {
    peers: &'p RefCell<Peers<'m>>,
    arena: &'m Arena,
    /// The guest's queues as long as they have not broken their rings.
    to_guest: Option<Enqueue<Writes<'p, 'm>>>,
    from_guest: Option<Dequeue<Writes<'p, 'm>>>,
    filler: Filler,
    sender: Sender,
    /// Whether the guest's present receive queue has lent any buffers.
    has_lent: bool,
    /// Where the next chain of each of the NIC's queues is added.
    added: [Cursor; 2],
    storage: Box<BurstStorage>,
}

impl<'p, 'm> Switch<'p, 'm> {
    fn new(peers: &'p RefCell<Peers<'m>>, arena: &'m Arena) -> Option<Self> {
        let (memory, guest, nic) = {
            let peers = peers.borrow();
            (peers.memory.clone(), peers.guest.configs, peers.configs)
        };
        let mut from_guest = Dequeue::with_log(memory.clone(), &guest[0], Writes(peers)).ok()?;
        from_guest.allow_keeping();
        let to_guest = Enqueue::with_log(memory, &guest[1], Writes(peers)).ok()?;
        Some(Switch {
            peers,
            arena,
            to_guest: Some(to_guest),
            from_guest: Some(from_guest),
            filler: Filler::new(Queue::new(arena, &nic[0]).ok()?),
            sender: Sender::new(Queue::new(arena, &nic[1]).ok()?),
            has_lent: false,
            added: [Cursor::new(), Cursor::new()],
            storage: Box::default(),
        })
    }

    fn make(&mut self, step: &Step) {
        match step {
            Step::Act(act) => self.peers.borrow_mut().act(act),
            Step::ToGuest(round) => self.during(round, true, Self::fill),
            Step::FromGuest(round) => self.during(round, false, Self::send),
            Step::Deliver(frames) => {
                if let Some(queue) = &self.to_guest
                    && deliver(queue, &mut self.storage, frames).is_err()
                {
                    self.end_to_guest();
                }
            }
            Step::Recall { from_guest: false } => self.recall_buffers(),
            Step::Recall { from_guest: true } => self.recall_chains(),
            Step::Restart => self.restart(),
        }
    }

    /// Makes a round, while the peers act. Buffers come back in it if it `fills` them.
    fn during(&mut self, round: &Round, fills: bool, make: impl FnOnce(&mut Self, &Round)) {
        let mut peers = self.peers.borrow_mut();
        peers.meanwhile.extend(round.meanwhile.iter().cloned());
        peers.watches = fills;
        if self.filler.loans.is_empty() {
            peers.knows_all = true;
            peers.lent.clear();
        }
        drop(peers);
        make(self, round);
        let mut peers = self.peers.borrow_mut();
        peers.meanwhile.clear();
        peers.watches = false;
    }

    /// Delivers the frames that the NIC has received, and lends it buffers.
    fn fill(&mut self, round: &Round) {
        let Some(guest) = &self.to_guest else { return };
        if let Some(most) = round.splices {
            let (before, base) = (self.filler.loans.len(), guest.base());
            let done = self.filler.splice(guest, work(most, round));
            assert!(done.frames <= most.into());
            assert_eq!(u32::from(self.filler.loans.len()) + done.frames, u32::from(before) + u32::from(done.back));
            let moved = u32::from((guest.base() as u16).wrapping_sub(base as u16));
            let is_split = self.peers.borrow().guest.configs[1].negotiated.format() == Format::Split;
            assert!(if is_split { moved == done.frames } else { (moved > 0) == (done.frames > 0) });
            self.observe(false, done.back);
            if !done.stopped {
                return;
            }
        }
        let Some(guest) = &self.to_guest else { return };
        match self.filler.pass(guest, work(0, round)) {
            Ok(passed) => self.observe(false, passed.added),
            Err((Peer::Guest, _)) => self.end_to_guest(),
            Err((Peer::Nic, _)) => self.recall_buffers(),
        }
    }

    /// Sends the guest's frames by the NIC, and returns chains.
    fn send(&mut self, round: &Round) {
        let Some(guest) = &self.from_guest else { return };
        if let Some(most) = round.splices {
            let (before, base) = (self.sender.chains.len(), guest.base() as u16);
            let done = self.sender.splice(guest, work(most, round), round.number.into());
            assert!(done.frames <= most.into());
            assert_eq!(u32::from(before) + done.frames, u32::from(self.sender.chains.len() + done.back));
            assert_eq!(guest.base() as u16 == base, done.back == 0);
            self.observe(true, done.frames as u16);
            if !done.stopped {
                return;
            }
        }
        let Some(guest) = &self.from_guest else { return };
        // It writes to the guest's ring after it has added chains, which `observe` has to see as they were added.
        self.peers.borrow_mut().meanwhile.retain(|act| matches!(act, Act::Guest(_)));
        match self.sender.pass(guest) {
            Ok(passed) => self.observe(true, passed.added),
            Err((Peer::Guest, _)) => self.end_from_guest(),
            Err((Peer::Nic, _)) => self.recall_chains(),
        }
    }

    /// Looks at the chains that were just added to one of the NIC's queues, before the NIC can change them.
    fn observe(&mut self, queue: bool, added: u16) {
        let peers = &mut *self.peers.borrow_mut();
        let config = &peers.configs[usize::from(queue)];
        self.has_lent |= !queue && added > 0;
        for _ in 0..added {
            let chain = self.added[usize::from(queue)].pass(self.arena.memory(), config);
            assert_eq!((chain.slots, chain.is_writable), (1, !queue));
            let start = std::ptr::with_exposed_provenance(chain.addr as usize);
            assert_shared(peers.memory, start, chain.len);
            if !queue {
                *peers.lent.entry((chain.addr, chain.len.into())).or_default() += 1;
            }
        }
    }

    /// Checks that nothing was lost, or is there twice.
    fn check(&self) {
        let peers = self.peers.borrow();
        let [filled, sent] = peers.configs.map(|config| config.size);
        assert_eq!(self.filler.queue.free() + self.filler.loans.len(), filled, "each chain of the NIC's has a buffer");
        assert_eq!(self.sender.queue.free() + self.sender.chains.len(), sent, "each chain of the NIC's has a frame");
        let (lent, loans) = (peers.lent.values().sum::<usize>(), usize::from(self.filler.loans.len()));
        assert!(if peers.knows_all { lent == loans } else { lent <= loans });
        if let Some(queue) = &self.from_guest {
            assert!(queue.kept() <= self.sender.chains.len().min(queue.size()));
        }
    }

    /// Takes all buffers back, as when the NIC has broken its ring. It starts again, and the guest's queue goes on.
    fn recall_buffers(&mut self) {
        self.peers.borrow_mut().watches = true;
        let (lent, posted) = (u32::from(self.filler.loans.len()), self.posted());
        for loan in self.filler.loans.drain() {
            if let Some(queue) = &self.to_guest {
                queue.give_back(loan);
            }
        }
        let posted = self.posted() - posted;
        let peers = &mut *self.peers.borrow_mut();
        assert!(self.filler.loans.is_empty());
        if self.to_guest.is_some() && peers.knows_all {
            assert_eq!(posted, lent, "the guest's queue has all of them");
            assert!(peers.lent.values().all(|&lent| lent == 0), "none is lent any more");
        }
        peers.watches = false;
        peers.knows_all = true;
        peers.lent.clear();
        peers.nics[0] = Backend::new(self.arena.memory(), peers.configs[0]);
        self.filler = Filler::new(Queue::new(self.arena, &peers.configs[0]).expect("it is as before"));
        self.added[0] = Cursor::new();
    }

    fn posted(&self) -> u32 {
        self.to_guest.as_ref().map_or(0, Enqueue::posted)
    }

    /// Takes all chains back, in the same way.
    fn recall_chains(&mut self) {
        let chains = self.sender.chains.drain();
        if let Some(queue) = &self.from_guest {
            queue.release(chains);
            queue.recycle();
            assert_eq!(queue.kept(), 0, "the guest has all chains");
        } else {
            chains.for_each(drop);
        }
        assert!(self.sender.chains.is_empty());
        let peers = &mut *self.peers.borrow_mut();
        peers.nics[1] = Backend::new(self.arena.memory(), peers.configs[1]);
        self.sender = Sender::new(Queue::new(self.arena, &peers.configs[1]).expect("it is as before"));
        self.added[1] = Cursor::new();
    }

    /// Ends a queue whose ring the guest has broken: the other goes on, and so does the NIC.
    fn end_to_guest(&mut self) {
        // It may have lent some before it failed.
        self.peers.borrow_mut().knows_all = false;
        self.recall_buffers();
        self.to_guest = None;
    }

    fn end_from_guest(&mut self) {
        self.recall_chains();
        self.from_guest = None;
    }

    fn restart(&mut self) {
        let Some(queue) = self.to_guest.take() else { return };
        let memory = {
            let peers = &mut *self.peers.borrow_mut();
            peers.guest.configs[1].base = queue.base();
            peers.knows_all = self.filler.loans.is_empty();
            peers.lent.clear();
            peers.memory.clone()
        };
        let config = self.peers.borrow().guest.configs[1];
        self.to_guest = Enqueue::with_log(memory, &config, Writes(self.peers)).ok();
        self.has_lent = false;
    }
}

/// Returns how the switch works in a round in which it splices at most this number of frames.
fn work(most: u8, round: &Round) -> Work {
    Work { most: most.into(), marks: round.number, refuses: round.number >> 6, ..Work::USUAL }
}
