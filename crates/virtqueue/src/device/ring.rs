//! A ring of either format, as far as it is the same for both directions.

use super::chain::{Access, WalkedChain};
use super::taken::TakenChain;
use crate::areas::Areas;
use crate::config::{QueueConfig, Returns};
use crate::error::{Fatal, SetupError};
use crate::layout::{Descriptor, Tail};
use crate::memory::{DirtyLog, Memory, Writer};
use std::cell::{RefCell, RefMut};
use std::sync::Arc;

/// The first descriptor of an available chain. A function that is not inlined takes its parts, in registers.
#[derive(Clone, Copy)]
pub(super) struct Head {
    /// Index in the descriptor table (split) or slot of the ring (packed).
    pub(super) index: u16,
    pub(super) descriptor: Descriptor,
}

/// How the descriptor of a usual chain looks, one that is available and in one buffer: one comparison of its tail tells it. A run of
/// such chains is taken in a loop of its own; the chain that ends the run is read again, as if for the first time.
#[derive(Clone, Copy)]
pub(super) struct Usual {
    /// The bits that are compared, and what they are.
    pub(super) mask: Tail,
    pub(super) bits: Tail,
}

impl Usual {
    /// Reports whether a chain that starts with `descriptor` is a usual one.
    #[inline(always)]
    pub(super) fn is(&self, descriptor: Descriptor) -> bool {
        descriptor.tail.0 & self.mask.0 == self.bits.0
    }
}

/// A ring of the format that was negotiated. [`each`] calls its methods.
pub(super) enum Either<S, P> {
    Split(S),
    Packed(P),
}

/// Evaluates an expression with the ring of either format, compiled for each of them.
macro_rules! each {
    ($either:expr, $ring:ident => $body:expr) => {
        match $either {
            $crate::device::ring::Either::Split($ring) => $body,
            $crate::device::ring::Either::Packed($ring) => $body,
        }
    };
}

pub(super) use each;

/// The parts that rings of both formats have.
pub(super) struct Common<L> {
    pub(super) areas: Areas,
    /// The writer of the guest's memory: of the ring and of the buffers.
    pub(super) writer: Writer<L>,
    pub(super) returns: Returns,
    pub(super) walked: RefCell<WalkedChain>,
}

impl<L: DirtyLog> Common<L> {
    pub(super) fn new(memory: Arc<Memory>, config: &QueueConfig, log: L) -> Result<Self, SetupError> {
        Ok(Common {
            areas: Areas::new(memory.clone(), config)?,
            writer: Writer::new(memory, log),
            returns: config.negotiated.returns(),
            walked: RefCell::new(WalkedChain::new()),
        })
    }
}

/// Operations on a ring that differ between the formats.
pub(super) trait DeviceRing {
    /// The log of the bytes that the device writes.
    type Log: DirtyLog;

    fn common(&self) -> &Common<Self::Log>;

    /// An entry of the ring that tells where an available chain starts.
    type Entry;

    /// Reads the descriptor that `entry` names, and the id of a chain that is all in it. Returns `None` if it names none.
    fn read(&self, entry: &Self::Entry) -> Option<(Descriptor, u16)>;

    /// Returns the chain that starts with `head` if that is all of it, in one buffer of this direction.
    fn single(head: Head, access: Access) -> Option<TakenChain>;

    /// Chains that the guest made available, as a call reads them.
    type Available: Copy;

    /// Starts to read chains of this direction; `wanted` of them are enough. Also returns how many may be read at most.
    fn read_available(&self, wanted: u16, access: Access) -> Result<(Self::Available, u16), Fatal>;

    /// Returns where the next chain starts, if there is one, and how it looks if it is a usual one.
    fn next_available(&self, available: &Self::Available) -> (&Self::Entry, Usual);

    /// Reports whether there is a next chain, after the one that was returned turned out not to be a usual one.
    fn has_available(&self, available: &Self::Available) -> bool;

    /// Passes a chain of one buffer.
    fn pass_available(&self, available: &mut Self::Available);

    /// Ends to read chains: those passed are taken.
    fn set_available(&self, available: Self::Available);

    /// Prefetches the place where a chain's return is written, if that is where it was read.
    fn fetch_to_return(entry: &Self::Entry);

    /// Walks the chain that starts with `first` at `index`, in buffers of this direction.
    fn walk(&self, index: u16, first: Descriptor, access: Access) -> Result<RefMut<'_, WalkedChain>, Fatal>;

    /// Enables or disables kicks from the guest.
    fn set_kicks(&self, wanted: bool);

    /// Reports whether the guest wants to be notified of the chains published since the previous query.
    fn wants_notification(&self) -> bool;

    /// Returns the position from which a later device resumes.
    fn base(&self) -> u32;
}
