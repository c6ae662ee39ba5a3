//! The generator and the checker behind the NIC.

use super::arrivals::Arrivals;
use super::nic::{Nic, NicRings};
use super::tunnel;
use crate::load::{Counts, Shape, Touch};
use packet::{BurstStorage, MAX_BURST, Segment};
use std::path::Path;
use vhost_user::backend::Error;
use virtqueue::Fatal;

/// Error: the switch broke a ring.
#[derive(Debug, thiserror::Error)]
#[error("the switch broke its ring: {0}")]
pub struct Broken(#[from] Fatal);

/// The NIC with its generator and checker.
pub struct Device {
    nic: Nic,
    storage: Box<BurstStorage>,
    /// One frame for each slot of a burst, after the headers of a tunnel if there is one.
    slots: Vec<Vec<u8>>,
    /// Length of these headers.
    outer: usize,
    there: Shape,
    back: Shape,
    sent: u64,
    arrivals: Arrivals,
    /// Buffer in which a frame is assembled for checking.
    scratch: Vec<u8>,
}

impl Device {
    /// Serves `socket`; sends frames of `size` bytes, and compares the returned ones if `checked`.
    pub fn serve(socket: &Path, size: u16, checked: bool) -> Result<Device, Error> {
        Ok(Device::behind(Nic::serve(socket, 1)?, size, checked))
    }

    /// Creates a device whose driver is in this process.
    pub fn new(rings: NicRings, size: u16, checked: bool) -> Device {
        Device::behind(Nic::of(rings), size, checked)
    }

    fn behind(nic: Nic, size: u16, checked: bool) -> Device {
        let (there, back) = (Shape::new(0, 1, size), Shape::new(1, 0, size));
        let mut slots = vec![vec![0; there.len()]; MAX_BURST];
        slots.iter_mut().for_each(|slot| there.prepare(slot));
        let scratch = vec![0; there.len()];
        let (storage, arrivals) = (Box::default(), Arrivals::new(checked));
        Device { nic, storage, slots, outer: 0, there, back, sent: 0, arrivals, scratch }
    }

    /// Sends its frames inside VXLAN, and expects them back inside VXLAN.
    pub fn inside_vxlan(mut self) -> Device {
        let end = tunnel::end();
        let mut headers = end.headers();
        end.complete(&mut headers, &self.slots[0][..]);
        self.outer = headers.len();
        self.slots.iter_mut().for_each(|slot| drop(slot.splice(..0, headers.iter().copied())));
        self
    }

    /// Takes returned frames and sends as many as `window` allows; returns the number of both together.
    #[inline(always)]
    pub fn turn<T: Touch>(&mut self, window: u64) -> Result<u64, Broken> {
        let rings = self.nic.rings(0);
        let Some((to, from)) = rings.both() else { return Ok(0) };
        let mut burst = self.storage.start();
        let received = from.receive(&mut burst)? as u64;
        if received > 0 {
            if self.outer > 0 {
                let outer = self.outer as u32;
                burst.trim(|_, frame| (frame.len() > outer).then_some((outer, frame.len())));
            }
            let frames = burst.frames();
            for frame in frames.as_slice() {
                if T::SEQUENCED {
                    let len = frames.copy_to(frame, &mut self.scratch[..T::looks_at(self.there.len())]);
                    let (number, intact) = T::read(&self.scratch, &self.back, self.arrivals.next());
                    let whole = len == T::looks_at(self.there.len()) && frame.len() as usize == self.there.len();
                    self.arrivals.note(number, whole, intact);
                } else {
                    self.arrivals.note(self.arrivals.next(), true, true);
                }
            }
            from.recycle();
        }
        let room = window.saturating_sub(self.in_flight()).min(MAX_BURST as u64);
        if room == 0 {
            return Ok(received);
        }
        if T::SEQUENCED {
            for (slot, number) in self.slots.iter_mut().zip(self.sent..self.sent + room) {
                T::write(&mut slot[self.outer..], &self.there, number);
            }
        }
        let mut burst = self.storage.start();
        self.slots[..room as usize].iter().for_each(|slot| burst.push(Segment::from(&slot[..])));
        let sent = u64::from(to.transmit(burst.frames())?.frames);
        self.sent += sent;
        Ok(received + sent)
    }

    /// Returns the counters of frames that arrived.
    pub fn counts(&self) -> Counts {
        self.arrivals.counts()
    }

    /// Returns the record of frames that arrived, for a network function that keeps them.
    #[inline(always)]
    pub fn arrivals(&mut self) -> &mut Arrivals {
        &mut self.arrivals
    }

    /// Returns the number of frames in flight, as far as known.
    #[inline(always)]
    pub fn in_flight(&self) -> u64 {
        self.sent.saturating_sub(self.arrivals.next())
    }

    /// Counts all frames in flight as lost.
    pub fn give_up(&mut self) {
        self.arrivals.give_up(self.sent);
    }

    /// Notifies the switch if it sleeps.
    pub fn notify(&self) {
        self.nic.notify(0);
    }
}
