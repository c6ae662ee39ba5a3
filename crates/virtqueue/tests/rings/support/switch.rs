//! A switch between a guest's queues and those of a NIC that reaches the guest's memory: each round is spliced, or goes the general way.
//! The tests of splices and the fuzzer of them use it.

use packet::{Burst, BurstStorage, Ethernet, MAX_BURST};
use virtqueue::device::{
    Borrower, Chains, Dequeue, Enqueue, FilledLoans, Landing, Loan, Loans, ReceiveTerms, Seen, SendTerms, Spliced,
    Terms, Unseen,
};
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::DirtyLog;
use virtqueue::{Fatal, NET_HEADER};

/// Minimum length of a lent buffer.
pub const LEND: u32 = 1024;

/// How the switch works.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Maximum number of frames that are spliced at once.
    pub most: u16,
    /// The general way marks one in so many loans. None if zero.
    pub marks: u8,
    /// One in so many headers is not to be spliced. If zero, no header is looked at.
    pub refuses: u8,
    /// Number of buffers that the guest keeps, if it has them.
    pub keep: u32,
    /// Called with each header that is looked at.
    pub check: fn(Ethernet),
}

impl Work {
    pub const USUAL: Work = Work { most: 32, marks: 0, refuses: 0, keep: 0, check: |_| {} };

    /// Returns a test of headers, in which each has another one.
    fn test(self) -> impl FnMut(Ethernet) -> bool {
        let mut count = 0;
        move |header| {
            (self.check)(header);
            count += 1;
            count % u32::from(self.refuses) != 0
        }
    }
}

/// The peer that broke a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Guest,
    Nic,
}

/// A ring that is broken, and how.
pub type Broken = (Peer, Fatal);

/// Entries that a round moved the general way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passed {
    /// Chains that came from the guest: its frames, sent or dropped; or buffers that it lent.
    pub taken: u16,
    /// Chains of the NIC's ring that came back, and those that were added.
    pub back: u16,
    pub added: u16,
}

impl Passed {
    pub fn is_any(&self) -> bool {
        self.taken > 0 || self.back > 0
    }
}

/// The queue of a NIC that fills a guest's buffers.
pub struct Filler {
    pub queue: Queue,
    pub loans: Loans,
}

impl Filler {
    pub fn new(queue: Queue) -> Filler {
        let loans = Loans::new(queue.free());
        Filler { queue, loans }
    }

    /// Splices frames.
    pub fn splice<L: DirtyLog>(&mut self, guest: &Enqueue<L>, work: Work) -> Spliced {
        let terms = ReceiveTerms { most: work.most, room: LEND, keep: work.keep };
        match work.refuses {
            0 => guest.splice(&mut self.queue, &mut self.loans, terms, Unseen),
            _ => guest.splice(&mut self.queue, &mut self.loans, terms, Seen::by(work.test())),
        }
    }

    /// Passes a burst of frames on to the guest, and lends its buffers to the NIC.
    pub fn pass<L: DirtyLog>(&mut self, guest: &Enqueue<L>, work: Work) -> Result<Passed, Broken> {
        let Filler { queue, loans } = self;
        let mut pass = Pass {
            queue,
            loans,
            marks: work.marks.into(),
            passed: Passed::default(),
            refused: Vec::new(),
            broken: None,
        };
        let mut storage = BurstStorage::default();
        let mut burst = storage.start();
        let frames = guest.receive_filled(&mut burst, &mut pass);
        let done = guest.transmit(burst.frames()).map_err(|fatal| (Peer::Guest, fatal))?;
        assert_eq!(done.frames as usize, frames, "every frame lies in a buffer of the guest");
        guest.settle(|_| panic!("every frame is for the guest"));
        pass.refused.drain(..).for_each(|loan| guest.give_back(loan));
        if let Some(fatal) = pass.broken {
            return Err((Peer::Nic, fatal));
        }
        let terms = Terms { room: LEND, keep: work.keep, most: pass.queue.free().into() };
        let lent = guest.lend(terms, &mut pass);
        pass.queue.publish();
        lent.map_err(|fatal| (Peer::Guest, fatal))?;
        Ok(pass.passed)
    }
}

/// Loans that a NIC has returned, and those that it gets.
struct Pass<'f> {
    queue: &'f mut Queue,
    loans: &'f mut Loans,
    marks: u16,
    passed: Passed,
    refused: Vec<Loan>,
    broken: Option<Fatal>,
}

impl<'q> FilledLoans<'q> for Pass<'_> {
    fn next(&mut self, _: &mut Burst<'_, 'q>) -> Option<(Loan, Landing<'q>)> {
        let used = self.queue.pop_used().unwrap_or_else(|fatal| {
            self.broken = Some(fatal);
            None
        })?;
        self.passed.back += 1;
        let loan = self.loans.take(used.id).expect("the NIC has loans only");
        Some((loan, Landing { has_header: true, ..Landing::whole(used.len.saturating_sub(NET_HEADER)) }))
    }

    fn refused(&mut self, loan: Loan) {
        self.refused.push(loan);
    }
}

impl Borrower for Pass<'_> {
    fn put(&mut self, loan: Loan) -> Result<(), Loan> {
        if !self.loans.takes(&loan) {
            return Err(loan);
        }
        let buffer = Buffer { addr: loan.addr(), len: loan.len(), writable: true };
        let Some(id) = self.queue.add(&[buffer]) else { return Err(loan) };
        self.passed.added += 1;
        self.passed.taken += 1;
        self.loans.put(id, loan, self.marks > 0 && self.passed.added.is_multiple_of(self.marks));
        Ok(())
    }
}

/// Frames of a guest that are shorter are not sent from its memory.
pub const SHORTEST: u32 = 60;

/// The queue of a NIC that sends a guest's frames from the guest's memory.
pub struct Sender {
    pub queue: Queue,
    pub chains: Chains,
}

impl Sender {
    pub fn new(queue: Queue) -> Sender {
        let chains = Chains::new(queue.free());
        Sender { queue, chains }
    }

    /// Splices frames, and keeps at most this number of chains.
    pub fn splice<L: DirtyLog>(&mut self, guest: &Dequeue<L>, work: Work, kept: u16) -> Spliced {
        let terms = SendTerms { most: work.most, shortest: SHORTEST, kept };
        match work.refuses {
            0 => guest.splice(&mut self.queue, &mut self.chains, terms, Unseen),
            _ => guest.splice(&mut self.queue, &mut self.chains, terms, Seen::by(work.test())),
        }
    }

    /// Returns chains that were sent, and sends a burst. Drops frames that cannot be kept: the NIC's driver has no own buffers.
    pub fn pass<L: DirtyLog>(&mut self, guest: &Dequeue<L>) -> Result<Passed, Broken> {
        let Sender { queue, chains } = self;
        let mut passed = Passed::default();
        while let Some(used) = queue.pop_used().map_err(|fatal| (Peer::Nic, fatal))? {
            guest.release([chains.take(used.id).expect("the NIC has frames of the guest only")]);
            passed.back += 1;
        }
        let mut storage = BurstStorage::default();
        let mut burst = storage.start();
        let room = usize::from(queue.free()).min(MAX_BURST);
        if room > 0 {
            burst.limit(room);
            passed.taken = guest.receive(&mut burst).map_err(|fatal| (Peer::Guest, fatal))? as u16;
        }
        let frames = burst.frames();
        for frame in frames.as_slice() {
            if frame.len() >= SHORTEST
                && let Some(chain) = frames.keep(frame, guest.id())
            {
                let addr = frame.first().as_ptr().addr() as u64 - u64::from(NET_HEADER);
                let buffer = Buffer { addr, len: NET_HEADER + frame.len(), writable: false };
                let id = queue.add(&[buffer]).expect("the burst was limited");
                chains.put(id, chain);
                passed.added += 1;
            }
        }
        queue.publish();
        guest.keep(burst.kept());
        guest.recycle();
        Ok(passed)
    }
}
