//! Batches of packets that other threads may look into, and the ports, which one thread at a time may use.
//!
//! Packets count the owners of their pool without atomics, and return to its list of free buffers without a lock. So one
//! thread at a time may make, move and drop packets of a pool: the one that has the ports. Another thread gets a batch of
//! them, and may only access their bytes. This file holds to that:
//!
//! - Packets enter a batch, and leave it, by methods of [`Devices`], which take it exclusively. There is one [`Devices`] in a
//!   run of a crew, and batches are of one run. It borrows the ports, so that the thread that called [`super::Crew::run`]
//!   uses them, or has lent them to workers, for which it waits meanwhile.
//! - [`Batch::process`] gives out [`View`]s, which read where the pool's buffers are, and access bytes of the packet's own
//!   buffers. Nothing there counts owners or touches the list. Where the buffers are never changes, so that several threads may
//!   read it.
//! - A batch that is dropped with packets in it leaks them: the thread that drops it may not have the ports.
//!
//! The bytes are exclusive: a buffer has one owner ([`crate::memory`]), this is in one batch, and `roles` gives one thread at
//! a time access to a batch.

use super::view::{Verdict, View};
use crate::memory::Packet;
use crate::port::{BURST, Ports};
use crate::run::{Rounds, RunError};
use std::sync::atomic::AtomicBool;

/// A burst of packets from one port, and the ports to send them to once they were processed.
// With the state that `roles` puts in front, it fits into two cache lines.
pub(super) struct Batch {
    packets: Vec<Packet>,
    from: u16,
    /// By packet: the number of a port, or `NOWHERE`.
    to: [u16; BURST],
}

const _: () = assert!(size_of::<Batch>() + 8 <= 128);

/// No port's number: the packet is dropped.
const NOWHERE: u16 = u16::MAX;

// SAFETY: Packets are not `Send` because of their pool's owners and its free list. A thread without the ports touches neither
// by a batch (see above). The rest of a packet is plain data, and buffers are `Send`.
unsafe impl Send for Batch {}

impl Batch {
    pub(super) fn new() -> Batch {
        Batch { packets: Vec::with_capacity(BURST), from: 0, to: [NOWHERE; BURST] }
    }

    /// Returns the number of packets.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Calls `work` with each frame, and stores where it goes. There are `ports` ports to send to.
    #[inline]
    pub(super) fn process(&mut self, ports: u16, work: &mut impl FnMut(&mut View<'_>) -> Verdict) {
        for (packet, to) in self.packets.iter_mut().zip(&mut self.to) {
            *to = match work(&mut View::new(packet, self.from)) {
                Verdict::Back => self.from,
                Verdict::Send(to) if to < ports => to,
                Verdict::Send(to) => panic!("a frame goes to port {to}, and the last port is {}", ports - 1),
                Verdict::Drop => NOWHERE,
            };
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        std::mem::forget(std::mem::take(&mut self.packets));
    }
}

/// The ports, for the one thread that may use them.
pub(super) struct Devices<'p> {
    ports: &'p mut Ports,
}

// SAFETY: Ports are not `Send` because of their packets, whose pools' owners and free lists one thread at a time may touch.
// All of these are in the ports and in batches, but for packets that the thread that called `Crew::run` may keep: it waits
// while others have the ports. The rest of a port is `Send`, as `is_send` checks.
unsafe impl Send for Devices<'_> {}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<vhost_user::frontend::Link>();
    is_send::<vhost_user::frontend::DriverQueue<()>>();
    is_send::<(crate::port::Broken, crate::port::Counters, crate::port::Options)>();
};

impl<'p> Devices<'p> {
    pub(super) fn new(ports: &'p mut Ports) -> Devices<'p> {
        Devices { ports }
    }

    /// Returns the number of ports.
    pub(super) fn count(&self) -> u16 {
        self.ports.len() as u16
    }

    /// Fills an empty batch with a burst from a port; returns its length.
    #[inline]
    pub(super) fn receive(&mut self, batch: &mut Batch, from: u16) -> usize {
        debug_assert!(batch.packets.is_empty());
        batch.from = from;
        let received = self.ports[usize::from(from)].receive(&mut batch.packets);
        debug_assert!(received <= BURST, "no port aggregates");
        received
    }

    /// Sends the packets of a batch by their verdicts; [`Devices::flush`] shows them to the devices.
    #[inline]
    pub(super) fn send(&mut self, batch: &mut Batch) {
        let mut dropped = 0;
        for (packet, &to) in batch.packets.drain(..).zip(&batch.to) {
            if to == NOWHERE {
                dropped += 1;
                drop(packet);
            } else if let Some(port) = self.ports.get_mut(usize::from(to)) {
                port.send(packet, 1);
            }
            // Otherwise the ports could not be opened again, and are gone.
        }
        if dropped > 0 {
            self.count_drops(batch.from, "verdict", dropped);
        }
    }

    /// Drops the packets of a batch.
    #[cold]
    pub(super) fn discard(&mut self, batch: &mut Batch, reason: &'static str) {
        self.count_drops(batch.from, reason, batch.packets.len() as u64);
        batch.packets.clear();
    }

    fn count_drops(&mut self, port: u16, reason: &'static str, count: u64) {
        if let Some(port) = self.ports.get_mut(usize::from(port)) {
            port.drop_for(reason, count);
        }
    }

    /// Shows the devices what was sent.
    #[inline]
    pub(super) fn flush(&mut self) {
        self.ports.iter_mut().for_each(|port| port.flush());
    }

    /// Ends a round, like [`Rounds::end`].
    #[inline]
    pub(super) fn end_round(
        &mut self,
        rounds: &mut Rounds,
        received: usize,
        stop: &AtomicBool,
    ) -> Result<(), RunError> {
        rounds.end(self.ports, received, stop)
    }
}
