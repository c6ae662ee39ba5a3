//! A wire in memory that loses, repeats, swaps and damages frames.

use crate::proxy::device::Link;
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// How often a frame meets each misfortune, in per mille.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) lost: u32,
    pub(super) repeated: u32,
    pub(super) swapped: u32,
    pub(super) damaged: u32,
}

type Frames = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// One end of the wire.
pub(super) struct End {
    to: Frames,
    from: Frames,
    /// The next frame to be received.
    next: Option<Vec<u8>>,
    pub(super) faults: Faults,
    random: Rc<Cell<u64>>,
    mtu: usize,
}

pub(super) fn wire(mtu: usize, faults: Faults, seed: u64) -> [End; 2] {
    let [a, b] = [Frames::default(), Frames::default()];
    let random = Rc::new(Cell::new(seed | 1));
    let end = |to: &Frames, from: &Frames| {
        let (to, from, random) = (to.clone(), from.clone(), random.clone());
        End { to, from, next: None, faults, random, mtu }
    };
    [end(&a, &b), end(&b, &a)]
}

impl End {
    fn happens(&self, per_mille: u32) -> bool {
        // Marsaglia's xorshift.
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        (x >> 32) % 1000 < u64::from(per_mille)
    }

    pub(super) fn send(&self, mut frame: Vec<u8>) {
        let mut to = self.to.borrow_mut();
        if self.happens(self.faults.lost) {
            return;
        }
        // Ethernet and ARP rely on the FCS.
        let is_ip = frame[12..14] == [8, 0];
        if is_ip && self.happens(self.faults.damaged) {
            let at = 14 + self.random.get() as usize % (frame.len() - 14);
            frame[at] ^= 1 << ((self.random.get() >> 40) % 8);
        }
        if self.happens(self.faults.repeated) {
            to.push_back(frame.clone());
        }
        to.push_back(frame);
        let last = to.len();
        if last > 1 && self.happens(self.faults.swapped) {
            to.swap(last - 1, last - 2);
        }
    }

    /// Takes the next frame off the wire; reports whether there is one.
    pub(super) fn take(&mut self) -> bool {
        if self.next.is_none() {
            self.next = self.from.borrow_mut().pop_front();
        }
        self.next.is_some()
    }
}

impl Link for End {
    fn first(&self) -> Option<&[u8]> {
        self.next.as_deref()
    }

    fn discard(&mut self) {
        self.next = None;
    }
}

impl Device for End {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sends<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sends<'_>)> {
        let frame = self.next.take()?;
        Some((Received(frame), Sends(self)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sends<'_>> {
        Some(Sends(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.mtu + 14;
        capabilities
    }
}

pub(super) struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

pub(super) struct Sends<'a>(&'a End);

impl TxToken for Sends<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let outcome = f(&mut frame);
        self.0.send(frame);
        outcome
    }
}
