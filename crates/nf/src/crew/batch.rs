//! Batches of packets that other threads may look into, and the ports, which one thread at a time may use.
//!
//! Packets count the owners of their pool without atomics, and return to its list of free buffers without a lock. So one
//! thread at a time may make, move and drop packets of a pool: the one that has the ports of this pool. Another thread may
//! get a batch of them, and may only access their bytes. This file holds to that:
//!
//! - Packets enter a batch, and leave it, by methods of [`Devices`], which take it exclusively. There is one [`Devices`] for
//!   the ports of a pool in a run of a crew, and batches are of one run, and of one [`Devices`]. It borrows the ports, so that
//!   the thread that called [`super::Crew::run`] uses them, or has lent them to workers, for which it waits meanwhile.
//! - [`Batch::process`] gives out [`View`]s, which read where the pool's buffers are, and access bytes of the packet's own
//!   buffers. Nothing there counts owners or touches the list. Where the buffers are never changes, so that several threads may
//!   read it.
//! - A batch that is dropped with packets in it leaks them: the thread that drops it may not have the ports.
//!
//! The bytes are exclusive: a buffer has one owner ([`crate::memory`]), this is in one batch, and `roles` gives one thread at
//! a time access to a batch.

use super::view::{Verdict, View};
use crate::memory::Packet;
use crate::port::{BURST, Port, Ports, WaitError};
use crate::run::{Rounds, RunError};
use std::ops::DerefMut;
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

/// Packets that wait to be joined with others, at most: those of a few batches.
const JOINED: usize = 8 * BURST;

// SAFETY: Packets are not `Send` because of their pool's owners and its free list. A thread without the ports touches neither
// by a batch (see above). The rest of a packet is plain data, and buffers are `Send`.
unsafe impl Send for Batch {}

impl Batch {
    pub(super) fn new() -> Batch {
        Batch { packets: Vec::with_capacity(BURST), from: 0, to: [NOWHERE; BURST] }
    }

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

/// Ports, for the one thread that may use them: all of them, or those of one worker.
pub(super) struct Devices<'p, P> {
    ports: &'p mut P,
    /// The port polled next: ports take turns.
    turn: u16,
    /// Packets that this port received, and that did not fit into a batch: it has split aggregates.
    rest: Vec<Packet>,
    /// By port, if it joins packets: those that it sends next.
    waiting: Vec<Vec<Packet>>,
}

// SAFETY: Ports are not `Send` because of their packets, whose pools' owners and free lists one thread at a time may touch.
// All of these are in the ports, in batches and in the lists above, but for packets that the thread that called `Crew::run`
// may keep: it waits while others have the ports. The rest of a port is `Send`, as `is_send` checks.
unsafe impl Send for Devices<'_, Ports> {}

// SAFETY: As above. Ports of one worker share no pool with those of another.
unsafe impl Send for Devices<'_, Vec<Port>> {}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<vhost_user::frontend::Link>();
    is_send::<vhost_user::frontend::DriverQueue<()>>();
    is_send::<(crate::port::Broken, crate::port::Counters, crate::port::Options)>();
    is_send::<(Box<paflow::Planner>, Box<paflow::decode::Piece>)>();
};

impl<'p, P: DerefMut<Target = [Port]>> Devices<'p, P> {
    pub(super) fn new(ports: &'p mut P) -> Devices<'p, P> {
        let waiting = ports.iter().map(|port| Vec::with_capacity(if port.aggregates() { JOINED } else { 0 }));
        let waiting = waiting.collect();
        Devices { ports, turn: 0, rest: Vec::new(), waiting }
    }

    pub(super) fn count(&self) -> u16 {
        self.waiting.len() as u16
    }

    /// Fills an empty batch with packets from the port whose turn it is; returns their number. The next port has its turn
    /// unless this one has more packets.
    #[inline]
    pub(super) fn receive(&mut self, batch: &mut Batch) -> usize {
        debug_assert!(batch.packets.is_empty());
        batch.from = self.turn;
        if self.rest.is_empty() {
            let port = &mut self.ports[usize::from(self.turn)];
            port.receive(if port.aggregates() { &mut self.rest } else { &mut batch.packets });
        }
        if !self.rest.is_empty() {
            let count = self.rest.len().min(BURST);
            batch.packets.extend(self.rest.drain(..count));
        }
        if self.rest.is_empty() {
            self.turn = if self.turn + 1 < self.count() { self.turn + 1 } else { 0 };
        }
        batch.packets.len()
    }

    /// Reports whether packets wait for another batch, which [`Devices::receive`] fills.
    #[inline]
    pub(super) fn has_rest(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Drops packets that wait for another batch.
    #[cold]
    pub(super) fn discard_rest(&mut self, reason: &'static str) {
        self.count_drops(self.turn, reason, self.rest.len() as u64);
        self.rest.clear();
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
                if port.aggregates() {
                    let waiting = &mut self.waiting[usize::from(to)];
                    if waiting.len() == JOINED {
                        port.transmit_all(waiting);
                    }
                    waiting.push(packet);
                } else {
                    port.send(packet, 1);
                }
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
        if let Some(port) = self.ports.get_mut(usize::from(port)).filter(|_| count > 0) {
            port.drop_for(reason, count);
        }
    }

    /// Joins packets, and shows sent ones to the devices.
    #[inline]
    pub(super) fn flush(&mut self) {
        for (port, waiting) in self.ports.iter_mut().zip(&mut self.waiting) {
            if waiting.is_empty() { port.flush() } else { port.transmit_all(waiting) }
        }
    }
}

impl Devices<'_, Ports> {
    /// Ends a round in which `received` frames came: rests if there were none, and reconnects lost links.
    #[inline]
    pub(super) fn end_round(
        &mut self,
        rounds: &mut Rounds,
        received: usize,
        stop: &AtomicBool,
    ) -> Result<(), RunError> {
        if rounds.end(self.ports, received)? {
            self.ports.check(stop)?;
        }
        Ok(())
    }
}

impl Devices<'_, Vec<Port>> {
    /// Ends a round in which `received` frames came: rests if there were none. Reports whether the devices keep to virtio, as far
    /// as it looked.
    #[inline]
    pub(super) fn end_round(&mut self, rounds: &mut Rounds, received: usize) -> Result<bool, WaitError> {
        let is_time = rounds.end(self.ports, received)?;
        Ok(!is_time || !self.ports.iter().any(Port::is_broken))
    }
}
