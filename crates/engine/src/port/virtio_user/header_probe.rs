//! Whether a device writes the whole virtio header of received frames.
//!
//! It must (virtio 1.2 §5.1.6.4.1), yet DPDK's vhost library leaves num_buffers as it finds it if buffers are not mergeable.
//! So headers of loans are made invalid, and checked when the loans come back, until the device has written many of them.
//! From then on only it and the guest access the headers. That gives the device no power over the guest that it lacks: it can
//! write to a lent buffer at any time, even after a check.

use std::cell::Cell;
use virtqueue::device::{Enqueue, Loan};

/// Number of headers that a device must write before it is trusted.
const TRIALS: u16 = 256;

/// Whether a device writes headers, as far as known.
pub(super) struct HeaderProbe {
    state: Cell<State>,
}

#[derive(Clone, Copy)]
enum State {
    /// The device has written this number of headers.
    Trial(u16),
    /// The device writes headers.
    Writes,
    /// The device left a header invalid.
    Leaves,
}

impl HeaderProbe {
    /// Begins the trial of a device.
    pub(super) fn new() -> HeaderProbe {
        HeaderProbe { state: Cell::new(State::Trial(0)) }
    }

    /// Makes the header of a loan invalid that the device will get, during the trial. Reports whether it did.
    #[inline(always)]
    pub(super) fn spoil(&self, ring: &Enqueue, loan: &Loan) -> bool {
        let is_on_trial = matches!(self.state.get(), State::Trial(_));
        if is_on_trial {
            ring.spoil_header(loan);
        }
        is_on_trial
    }

    /// Reports whether the device is known to write headers.
    #[inline(always)]
    pub(super) fn writes(&self) -> bool {
        matches!(self.state.get(), State::Writes)
    }

    /// Reports whether the header of a loan that the device has filled is known to be valid. One that was `spoiled` is
    /// checked, even if it comes back after the trial.
    #[inline(always)]
    pub(super) fn is_written(&self, ring: &Enqueue, loan: &Loan, spoiled: bool) -> bool {
        if spoiled { self.note(ring.has_valid_header(loan)) } else { matches!(self.state.get(), State::Writes) }
    }

    #[cold]
    fn note(&self, is_valid: bool) -> bool {
        self.state.set(match self.state.get() {
            _ if !is_valid => State::Leaves,
            State::Trial(good) if good + 1 < TRIALS => State::Trial(good + 1),
            State::Trial(_) => State::Writes,
            known => known,
        });
        is_valid
    }
}
