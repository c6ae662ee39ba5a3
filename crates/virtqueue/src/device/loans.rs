//! Records of a driver that works for a guest's queue: the loans and chains of that queue, by the ids of the driver's own chains.

use super::lend::Loan;
use super::posted::Posted;

/// Marks a loan that is never spliced: in the slots of its buffer, as a chain of one buffer has fewer.
const MARK: u16 = 1 << 15;

/// Loans that a filler has, all of one queue.
pub struct Loans {
    /// The queue that lent them, if there are any.
    queue: u64,
    count: u16,
    /// By id; one without slots is none.
    entries: Box<[Posted]>,
    watch: Watch,
}

/// The loan that is watched, and the one that was spliced last.
#[derive(Default)]
pub(super) struct Watch {
    watched: Option<u16>,
    is_back: bool,
    last: Option<u16>,
}

impl Watch {
    /// Looks whether the watched loan has come back, before others are lent.
    #[inline(always)]
    pub(super) fn look(&mut self, entries: &[Posted]) {
        let entry = self.watched.and_then(|id| entries.get(usize::from(id)));
        self.is_back = entry.is_some_and(|entry| entry.slots == 0);
    }

    /// Notes the id of the last loan.
    #[inline(always)]
    pub(super) fn lent(&mut self, last: u16) {
        self.last = Some(last);
    }
}

/// The entries of [`Loans`] and their number, to splice.
pub(super) struct Entries<'l> {
    pub(super) entries: &'l mut [Posted],
    pub(super) count: &'l mut u16,
    pub(super) watch: &'l mut Watch,
}

impl Loans {
    /// Returns an empty record for ids below `size`.
    pub fn new(size: u16) -> Loans {
        Loans { queue: 0, count: 0, entries: vec![Posted::NONE; size.into()].into(), watch: Watch::default() }
    }

    /// Returns the number of loans.
    #[inline(always)]
    pub fn len(&self) -> u16 {
        self.count
    }

    /// Reports whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Reports whether this loan can be put here: it is of the same queue as the others.
    #[inline(always)]
    pub fn takes(&self, loan: &Loan) -> bool {
        self.count == 0 || self.queue == loan.queue
    }

    /// Puts the loan of the chain with this id here, which has none; `marked` if it must not be spliced.
    ///
    /// # Panics
    /// If `id` is too large, or [`Loans::takes`] is false.
    #[inline(always)]
    pub fn put(&mut self, id: u16, loan: Loan, marked: bool) {
        assert!(self.takes(&loan), "all loans are of one queue");
        self.queue = loan.queue;
        let slots = loan.buffer.slots | if marked { MARK } else { 0 };
        self.entries[usize::from(id)] = Posted { slots, ..loan.buffer };
        self.count += 1;
    }

    /// Takes the loan of the chain with this id.
    #[inline(always)]
    pub fn take(&mut self, id: u16) -> Option<Loan> {
        let entry = self.entries.get_mut(usize::from(id)).filter(|entry| entry.slots != 0)?;
        let buffer = Posted { slots: entry.slots & !MARK, ..*entry };
        entry.slots = 0;
        self.count -= 1;
        Some(Loan { buffer, queue: self.queue })
    }

    /// Takes all loans.
    pub fn drain(&mut self) -> impl Iterator<Item = Loan> {
        (0..self.entries.len() as u16).filter_map(|id| self.take(id))
    }

    /// Returns the entries, to splice loans of `queue`; `None` if they are of another queue. The caller counts.
    #[inline(always)]
    pub(super) fn of(&mut self, queue: u64) -> Option<Entries<'_>> {
        if self.count == 0 {
            self.queue = queue;
        }
        (self.queue == queue).then_some(Entries {
            entries: &mut self.entries,
            count: &mut self.count,
            watch: &mut self.watch,
        })
    }

    /// Watches the loan with this id in the next splice.
    #[inline(always)]
    pub fn watch(&mut self, id: Option<u16>) {
        self.watch = Watch { watched: id, is_back: false, last: None };
    }

    /// Reports whether the watched loan has come back.
    #[inline(always)]
    pub fn watched_is_back(&self) -> bool {
        self.watch.is_back
    }

    /// Returns the id of the last loan that the splice lent.
    #[inline(always)]
    pub fn last(&self) -> Option<u16> {
        self.watch.last
    }
}

/// Reports whether an entry of [`Loans::of`] is a loan that is not marked.
#[inline(always)]
pub(super) fn is_usual(entry: &Posted) -> bool {
    entry.slots.wrapping_sub(1) < MARK - 1
}

/// Chains of a guest whose frames a sender has.
pub struct Chains {
    count: u16,
    /// By id of the sender's chain; [`NO_CHAIN`] is none.
    entries: Box<[u16]>,
}

/// No chain: larger than any id.
pub(super) const NO_CHAIN: u16 = u16::MAX;

impl Chains {
    /// Returns an empty record for ids below `size`.
    pub fn new(size: u16) -> Chains {
        Chains { count: 0, entries: vec![NO_CHAIN; size.into()].into() }
    }

    /// Returns the number of chains.
    #[inline(always)]
    pub fn len(&self) -> u16 {
        self.count
    }

    /// Reports whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds the guest's `chain` that the sender's chain with this id sends, which is below the record's size and free.
    #[inline(always)]
    pub fn put(&mut self, id: u16, chain: u16) {
        let before = std::mem::replace(&mut self.entries[usize::from(id)], chain);
        debug_assert_eq!(before, NO_CHAIN, "the sender has sent the chain before");
        self.count += 1;
    }

    /// Takes the guest's chain that the sender's chain with this id sends.
    #[inline(always)]
    pub fn take(&mut self, id: u16) -> Option<u16> {
        let entry = self.entries.get_mut(usize::from(id)).filter(|entry| **entry != NO_CHAIN)?;
        self.count -= 1;
        Some(std::mem::replace(entry, NO_CHAIN))
    }

    /// Takes all chains.
    pub fn drain(&mut self) -> impl Iterator<Item = u16> {
        (0..self.entries.len() as u16).filter_map(|id| self.take(id))
    }

    /// Returns the entry of the sender's chain with this id, to splice. The caller counts: [`Chains::moved`].
    #[inline(always)]
    pub(super) fn entry(&mut self, id: u16) -> Option<&mut u16> {
        self.entries.get_mut(usize::from(id))
    }

    /// Sets the guest's chain that the sender's chain with this id sends, which is below the record's size and free. The caller counts:
    /// [`Chains::moved`].
    #[inline(always)]
    pub(super) fn set(&mut self, id: u16, chain: u16) {
        self.entries[usize::from(id)] = chain;
    }

    /// Counts chains that were spliced.
    #[inline(always)]
    pub(super) fn moved(&mut self, returned: u16, kept: u16) {
        self.count = self.count + kept - returned;
    }
}
