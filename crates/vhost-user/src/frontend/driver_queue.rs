//! The driver end of one queue: its ring, its notifications, and the driver's data for each chain that the device has.

use super::QueueEnd;
use crate::Event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::time::Instant;
use virtqueue::driver::{Buffer, Queue, UsedBuffer};
use virtqueue::{Fatal, ordering};

/// The driver end of one running queue.
///
/// For each chain it has an entry of type `T`, which the driver sets when it adds the chain, and finds again when the device
/// returns it: usually the chain's buffers. Entries of other chains are as the driver left them.
pub struct DriverQueue<T> {
    ring: Queue,
    size: u16,
    kick: Event,
    call: Event,
    /// By the id of the chain.
    entries: Box<[T]>,
}

/// A chain that the device has returned.
pub struct Returned<'q, T> {
    /// The chain's id, which is free for another chain.
    pub id: u16,
    /// The chain's entry.
    pub entry: &'q mut T,
    /// Bytes that the device wrote.
    pub len: u32,
    /// Number of the group's buffer that came back instead ([`virtqueue::exchange`]).
    pub instead: Option<u16>,
}

impl<T: Default> DriverQueue<T> {
    /// Takes a queue whose chains all belong to the driver, and disables notifications by the device.
    pub fn new(end: QueueEnd) -> DriverQueue<T> {
        let QueueEnd { queue: mut ring, config, kick, call } = end;
        ring.set_interrupts(false);
        let entries = (0..config.size).map(|_| T::default()).collect();
        DriverQueue { ring, size: config.size, kick, call, entries }
    }
}

impl<T> DriverQueue<T> {
    /// Returns the number of descriptors.
    #[inline(always)]
    pub fn size(&self) -> u16 {
        self.size
    }

    /// Returns the number of free descriptors.
    #[inline(always)]
    pub fn free(&self) -> u16 {
        self.ring.free()
    }

    /// Adds a chain of `buffers`, which [`DriverQueue::publish`] makes visible; returns its id, and its entry to be set.
    /// Returns `None` if `buffers` is empty or there are too few free descriptors.
    #[inline(always)]
    pub fn add(&mut self, buffers: &[Buffer]) -> Option<(u16, &mut T)> {
        let id = self.ring.add(buffers)?;
        Some((id, &mut self.entries[usize::from(id)]))
    }

    /// Adds a chain as [`DriverQueue::add`] does, and sets its entry. Returns its id.
    #[inline(always)]
    pub fn add_with(&mut self, buffers: &[Buffer], entry: T) -> Option<u16> {
        let (id, place) = self.add(buffers)?;
        *place = entry;
        Some(id)
    }

    /// Makes all added chains available to the device at once.
    #[inline(always)]
    pub fn publish(&mut self) {
        self.ring.publish();
    }

    /// Returns the next used chain. Fails if the device broke the ring.
    #[inline(always)]
    pub fn pop(&mut self) -> Result<Option<Returned<'_, T>>, Fatal> {
        let used = self.ring.pop_used()?;
        let entries = &mut self.entries;
        Ok(used.map(|UsedBuffer { id, len, instead }| Returned {
            id,
            entry: &mut entries[usize::from(id)],
            len,
            instead,
        }))
    }

    /// Reports whether [`DriverQueue::pop`] has something to return.
    pub fn has_used(&self) -> bool {
        self.ring.has_used()
    }

    /// Returns the ring, for a splice, which records its chains elsewhere.
    #[inline(always)]
    pub fn ring(&mut self) -> &mut Queue {
        &mut self.ring
    }

    /// Returns the entries of all chains, by id.
    pub fn entries(&mut self) -> &mut [T] {
        &mut self.entries
    }

    /// Kicks the device if it wants to know of the chains published since the previous call. Call
    /// [`ordering::before_asking`] between publishing and this; one such fence serves many queues.
    #[inline(always)]
    pub fn notify(&mut self) {
        if self.ring.wants_kick() {
            self.kick.notify();
        }
    }

    /// Publishes all added chains, and kicks the device if it wants that.
    #[inline(always)]
    pub fn flush(&mut self) {
        self.publish();
        ordering::before_asking();
        self.notify();
    }

    /// Enables notifications of used chains. Reports whether there are some already, of which the device may say nothing.
    pub fn arm(&mut self) -> bool {
        self.ring.set_interrupts(true);
        ordering::before_asking();
        self.ring.has_used()
    }

    /// Disables notifications of used chains.
    pub fn disarm(&mut self) {
        self.ring.set_interrupts(false);
    }

    /// Returns the event by which the device notifies of used chains, if that is enabled.
    pub fn call(&self) -> &Event {
        &self.call
    }

    /// Returns the event by which the device is kicked.
    pub fn kick(&self) -> &Event {
        &self.kick
    }

    /// Sleeps until the device has used a chain, or until `deadline`; reports whether it has.
    pub fn wait(&mut self, deadline: Instant) -> io::Result<bool> {
        if self.has_used() {
            return Ok(true);
        }
        let outcome = loop {
            // In this order: a notification after the clearing is seen by the next check.
            self.call.clear();
            let used = self.arm();
            let left = deadline.saturating_duration_since(Instant::now());
            if used || left.is_zero() {
                break Ok(used);
            }
            let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&self.call, PollFlags::IN)], Some(&limit)) {
                // A device may notify without cause, for instance when it gets the descriptor.
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => break Err(error.into()),
            }
        };
        self.disarm();
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::BurstStorage;
    use std::time::Duration;
    use virtqueue::device::Dequeue;
    use virtqueue::memory::Arena;
    use virtqueue::{NET_HEADER, Negotiated, features};

    /// A queue of four descriptors, its device, and a buffer with a frame.
    fn queue(features: u64) -> (DriverQueue<&'static str>, Dequeue, Buffer) {
        let mut arena = Arena::new(1 << 20, false).unwrap();
        let config = Queue::layout(&mut arena, 4, Negotiated(features::VERSION_1 | features)).unwrap();
        let ring = Queue::new(&arena, &config).unwrap();
        let queue = DriverQueue::new(QueueEnd::create(ring, config).unwrap());
        let device = Dequeue::new(arena.memory().clone(), &config).unwrap();
        let len = NET_HEADER + 60;
        (queue, device, Buffer { addr: arena.allocate(len.into(), 64).unwrap(), len, writable: false })
    }

    fn return_all(device: &Dequeue) {
        let mut storage = BurstStorage::default();
        device.receive(&mut storage.start()).unwrap();
        device.recycle();
    }

    #[test]
    fn an_entry_comes_back_with_its_chain() {
        for features in [0, features::RING_PACKED] {
            let (mut queue, device, buffer) = queue(features);
            for (first, second) in [("a", "b"), ("c", "d"), ("e", "f")] {
                let id = queue.add_with(&[buffer], first).unwrap();
                *queue.add(&[buffer, buffer]).unwrap().1 = second;
                assert_eq!((queue.size(), queue.free()), (4, 1));
                assert!(queue.add_with(&[buffer, buffer], "none").is_none());
                queue.flush();
                return_all(&device);
                let returned = queue.pop().unwrap().unwrap();
                assert_eq!((returned.id, *returned.entry), (id, first));
                assert_eq!(*queue.pop().unwrap().unwrap().entry, second);
                assert!(queue.pop().unwrap().is_none() && !queue.has_used());
            }
        }
    }

    #[test]
    fn it_sleeps_no_longer_than_until_a_chain_is_used() {
        let (mut queue, device, buffer) = queue(0);
        assert!(!queue.wait(Instant::now() + Duration::from_millis(5)).unwrap());
        queue.add(&[buffer]).unwrap();
        queue.flush();
        let call = queue.call().clone();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                return_all(&device);
                call.notify();
            });
            assert!(queue.wait(Instant::now() + Duration::from_secs(120)).unwrap());
        });
    }
}
