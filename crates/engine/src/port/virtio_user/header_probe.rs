//! Whether a device writes the whole virtio header of received frames.
//!
//! It must (virtio 1.2 §5.1.6.4.1), yet DPDK's vhost library leaves num_buffers as it finds it if buffers are not
//! mergeable. So the headers of the first loans are made invalid, and looked at when the loans come back. If the device wrote
//! all of them, only it and the guest access the headers from then on. That gives the device no power over the guest that it
//! lacks: it can write to a lent buffer at any time, even after a check.

use std::cell::Cell;
use virtqueue::device::{Enqueue, Loan};

/// Number of headers that a device must write before it is trusted.
const TRIALS: u16 = 256;

/// What is known of a device.
pub(super) struct HeaderProbe {
    state: Cell<State>,
}

#[derive(Clone, Copy)]
enum State {
    /// The device has written so many headers. Each loan that it has got an invalid one before.
    Trial(u16),
    /// The device writes headers.
    Writes,
    /// The device left a header invalid.
    Leaves,
}

impl HeaderProbe {
    /// Begins the trial of a device that has no loans.
    pub(super) fn new() -> HeaderProbe {
        HeaderProbe { state: Cell::new(State::Trial(0)) }
    }

    /// Prepares a loan that the device will get.
    #[inline(always)]
    pub(super) fn prepare(&self, ring: &Enqueue, loan: &Loan) {
        if matches!(self.state.get(), State::Trial(_)) {
            ring.spoil_header(loan);
        }
    }

    /// Reports whether the header of a loan that the device has filled is known to be valid.
    #[inline(always)]
    pub(super) fn is_written(&self, ring: &Enqueue, loan: &Loan) -> bool {
        match self.state.get() {
            State::Writes => true,
            State::Leaves => false,
            State::Trial(good) => self.judge(ring, loan, good),
        }
    }

    #[cold]
    fn judge(&self, ring: &Enqueue, loan: &Loan, good: u16) -> bool {
        let valid = ring.has_valid_header(loan);
        self.state.set(match good + 1 {
            _ if !valid => State::Leaves,
            TRIALS => State::Writes,
            good => State::Trial(good),
        });
        valid
    }
}
