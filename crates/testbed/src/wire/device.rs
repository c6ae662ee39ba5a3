//! The NIC: device side of a vhost-user socket.

use super::tunnel;
use crate::load::{Counts, Sequence, Shape, Touch};
use rustix::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use vhost_user::Mode;
use vhost_user::backend::{Error, Options, QueueSetup, Queues, Service};
use virtqueue::device::{Dequeue, Enqueue};
use virtqueue::{BurstStorage, Fatal, MAX_BURST, Segment, SetupError, ordering};

/// The switch broke a ring.
#[derive(Debug, thiserror::Error)]
#[error("the switch broke its ring: {0}")]
pub struct Broken(#[from] Fatal);

/// A ring, and how its driver is notified.
struct Running<Q>(Q, Option<Arc<OwnedFd>>);

/// The rings, as long as they run. The session's thread takes them away between two turns.
#[derive(Default)]
pub struct Rings {
    to: Option<Running<Enqueue>>,
    from: Option<Running<Dequeue>>,
}

impl Rings {
    /// Rings whose driver polls and needs no notification.
    pub fn of(to: Enqueue, from: Dequeue) -> Rings {
        to.set_kicks(false);
        from.set_kicks(false);
        Rings { to: Some(Running(to, None)), from: Some(Running(from, None)) }
    }
}

#[derive(Default)]
struct State(Mutex<Rings>);

impl Queues for State {
    fn connected(&self) {}

    fn start(&self, index: usize, setup: QueueSetup) -> Result<(), SetupError> {
        let mut rings = self.0.lock().unwrap();
        if index.is_multiple_of(2) {
            let ring = Enqueue::new(setup.memory, &setup.config)?;
            ring.set_kicks(false);
            rings.to = Some(Running(ring, setup.call));
        } else {
            let ring = Dequeue::new(setup.memory, &setup.config)?;
            ring.set_kicks(false);
            rings.from = Some(Running(ring, setup.call));
        }
        Ok(())
    }

    fn stop(&self, index: usize) -> Result<Option<u32>, String> {
        let mut rings = self.0.lock().unwrap();
        let from = index % 2 == 1;
        Ok(if from { rings.from.take().map(|q| q.0.base()) } else { rings.to.take().map(|q| q.0.base()) })
    }

    fn disconnected(&self, _: &str) {}

    fn describe(&self, _: String) {}
}

/// The NIC, and what is behind it.
pub struct Device {
    state: Arc<State>,
    storage: Box<BurstStorage>,
    /// One frame for each of a burst, behind the headers of a tunnel if there is one.
    slots: Vec<Vec<u8>>,
    /// Bytes of these headers.
    outer: usize,
    there: Shape,
    back: Shape,
    sent: u64,
    sequence: Sequence,
    /// Frames are compared with what was sent.
    checked: bool,
    /// Where a frame is put together to be checked.
    scratch: Vec<u8>,
    _service: Option<Service>,
}

impl Device {
    /// Serves `socket`; sends frames of `size` bytes, and compares what comes back if it is to be `checked`.
    pub fn serve(socket: &Path, size: u16, checked: bool) -> Result<Device, Error> {
        let mut device = Device::new(Rings::default(), size, checked);
        let options = Options { socket: socket.to_owned(), mode: Mode::Server, queue_pairs: 1, withheld: 0 };
        device._service = Some(Service::spawn(options, device.state.clone())?);
        Ok(device)
    }

    /// One whose driver is at hand.
    pub fn new(rings: Rings, size: u16, checked: bool) -> Device {
        let (there, back) = (Shape::new(0, 1, size), Shape::new(1, 0, size));
        let state = Arc::new(State(Mutex::new(rings)));
        let mut slots = vec![vec![0; there.len()]; MAX_BURST];
        slots.iter_mut().for_each(|slot| there.prepare(slot));
        let scratch = vec![0; there.len()];
        let (storage, sequence) = (Box::default(), Sequence::default());
        Device { state, storage, slots, outer: 0, there, back, sent: 0, sequence, checked, scratch, _service: None }
    }

    /// Sends its frames inside of VXLAN, and expects them back so.
    pub fn inside_vxlan(mut self) -> Device {
        let end = tunnel::end();
        let mut headers = end.headers();
        end.complete(&mut headers, &self.slots[0][..]);
        self.outer = headers.len();
        self.slots.iter_mut().for_each(|slot| drop(slot.splice(..0, headers.iter().copied())));
        self
    }

    /// Takes what came back and sends as many frames as `window` allows; how many that were.
    #[inline(always)]
    pub fn turn<T: Touch>(&mut self, window: u64) -> Result<u64, Broken> {
        let rings = self.state.0.lock().unwrap();
        let (Some(Running(to, _)), Some(Running(from, _))) = (&rings.to, &rings.from) else { return Ok(0) };
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
                    let (number, intact) = T::read(&self.scratch, &self.back, self.sequence.next());
                    let whole = len == T::looks_at(self.there.len()) && frame.len() as usize == self.there.len();
                    if self.checked {
                        self.sequence.note(number, intact && whole);
                    } else {
                        self.sequence.note(self.sequence.next(), whole);
                    }
                } else {
                    self.sequence.note(self.sequence.next(), true);
                }
            }
            from.recycle();
        }
        let room = window.saturating_sub(self.sent.saturating_sub(self.sequence.next())).min(MAX_BURST as u64);
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

    /// Compares what comes back from now on.
    #[cfg(test)]
    pub fn check(&mut self) {
        self.checked = true;
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.sequence.counts()
    }

    /// Gives up on everything that is on its way.
    pub fn give_up(&mut self) {
        self.sequence.give_up(self.sent);
    }

    /// Wakes the switch if it sleeps.
    pub fn notify(&self) {
        let rings = self.state.0.lock().unwrap();
        ordering::before_asking();
        let to = rings.to.as_ref().filter(|r| r.0.wants_notification()).and_then(|r| r.1.as_ref());
        let from = rings.from.as_ref().filter(|r| r.0.wants_notification()).and_then(|r| r.1.as_ref());
        [to, from].into_iter().flatten().for_each(vhost_user::notify);
    }
}
