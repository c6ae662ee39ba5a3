//! The length from which a frame is better sent from the guest's memory than copied.
//!
//! Keeping a frame's chain until it is sent costs the same for any length; copying costs by the cache line. The
//! break-even point depends on the machine, so it is measured, once, when the first mapping is made: one thread plays
//! the guest, the switch and the device behind a virtio-user port, and times only the switch. The guest's buffers
//! exceed a second-level cache, so that frames come from memory, like those that another processor wrote.

use super::virtio_user::{QueueResources, STRIDE, VirtioTransmit};
use super::zero_copy::{Mapped, ZeroCopyTx};
use super::{Sent, TxQueue};
use crate::clock::Cycles;
use packet::{BurstStorage, MAX_BURST};
use std::sync::{Arc, OnceLock};
use vhost_user::frontend::QueueEnd;
use virtqueue::device::Dequeue;
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::Arena;
use virtqueue::{NET_HEADER, Negotiated, features};

/// Lengths to try. Longer frames are never copied.
const LENGTHS: [u32; 6] = [64, 96, 128, 192, 256, 512];

/// Value if it cannot be measured: about that of most machines.
const USUAL: u32 = 128;

/// Number of the guest's buffers, which take 8 MiB.
const BUFFERS: u16 = 4096;

/// Descriptors of a ring.
const SIZE: u16 = 256;

/// Bursts in a row that are timed together, and repetitions: the fastest counts, as nothing else disturbed it.
const BURSTS: usize = 32;
const REPEATS: usize = 5;

/// Returns the shortest length of a guest's frame to send without a copy, in bytes. Takes some milliseconds the first time.
pub(crate) fn measured() -> u32 {
    static MEASURED: OnceLock<u32> = OnceLock::new();
    *MEASURED.get_or_init(|| {
        let copy_break = measure();
        match copy_break {
            Some(bytes) => tracing::info!("frames of mapped guests are copied below {bytes} bytes, as measured"),
            None => tracing::warn!("frames of mapped guests are copied below {USUAL} bytes; it could not be measured"),
        }
        copy_break.unwrap_or(USUAL)
    })
}

fn measure() -> Option<u32> {
    let (mut copying, mut keeping) = (Rig::new(u32::MAX)?, Rig::new(0)?);
    let pays = |len: &u32| -> Option<bool> { Some(keeping.fastest(*len)? <= copying.fastest(*len)?) };
    let pays: Vec<bool> = LENGTHS.iter().map(pays).collect::<Option<_>>()?;
    // The shortest length from which keeping is never slower.
    let first = pays.iter().rposition(|pays| !pays).map_or(0, |last| last + 1);
    Some(LENGTHS.get(first).copied().unwrap_or(LENGTHS[LENGTHS.len() - 1]))
}

/// A guest's transmit queue, a device's queue, and a half that sends from one to the other.
struct Rig {
    guest: Queue,
    from: Dequeue,
    to: VirtioTransmit,
    device: Dequeue,
    /// Guest address of its buffers, and number of frames sent.
    buffers: u64,
    sent: u64,
    storage: Box<BurstStorage>,
    cycles: Cycles,
}

impl Rig {
    /// Returns a rig that sends frames without a copy from this length on.
    fn new(copy_break: u32) -> Option<Rig> {
        let stride = u64::from(STRIDE);
        let room = u64::from(BUFFERS + SIZE) * stride;
        let mut arena = Arena::new(room + (1 << 20), false).ok()?;
        // Neither ring is in order, as kept chains come back in another order.
        let negotiated = Negotiated(features::VERSION_1);
        let mut queue = || Queue::layout(&mut arena, SIZE, negotiated);
        let (guest, device) = (queue()?, queue()?);
        let buffers = arena.allocate(u64::from(BUFFERS) * stride, 4096)?;
        let own = arena.allocate(u64::from(SIZE) * stride, 4096)?;
        let memory = arena.memory().clone();
        let mut from = Dequeue::new(memory.clone(), &guest).ok()?;
        from.allow_keeping();
        let mapped = Mapped::new(false, copy_break);
        mapped.set_in_place_from(from.id());
        let end = QueueResources {
            queue: QueueEnd::create(Queue::new(&arena, &device).ok()?, device).ok()?,
            buffers: own,
            broken: Arc::default(),
            arena: Arc::new(arena),
        };
        Some(Rig {
            guest: Queue::new(&end.arena, &guest).ok()?,
            from,
            device: Dequeue::new(memory, &device).ok()?,
            to: VirtioTransmit::new(end, Some(Arc::new(mapped))),
            buffers,
            sent: 0,
            storage: Box::default(),
            cycles: Cycles::new(),
        })
    }

    /// Returns the cycles of the fastest of several runs with frames of `len` bytes.
    fn fastest(&mut self, len: u32) -> Option<u64> {
        (0..REPEATS).map(|_| (0..BURSTS).map(|_| self.burst(len)).sum::<Option<u64>>()).min()?
    }

    /// Returns the cycles that the switch takes to send a burst.
    fn burst(&mut self, len: u32) -> Option<u64> {
        for _ in 0..MAX_BURST {
            let addr = self.buffers + self.sent % u64::from(BUFFERS) * u64::from(STRIDE);
            self.guest.add(&[Buffer { addr, len: len + NET_HEADER, writable: false }])?;
            self.sent += 1;
        }
        self.guest.publish();
        let start = self.cycles.now();
        self.to.returned(&mut |ids| self.from.release(ids.iter().copied()));
        let mut burst = self.storage.start();
        burst.set_unread_from(self.to.keeps_from());
        self.from.receive(&mut burst).ok()?;
        let Sent { frames, .. } = self.to.transmit(burst.frames());
        self.from.keep(burst.kept());
        self.from.recycle();
        let taken = self.cycles.now() - start;
        let mut burst = self.storage.start();
        let arrived = self.device.receive(&mut burst).ok()?;
        self.device.recycle();
        while self.guest.pop_used().ok()?.is_some() {}
        (frames as usize == MAX_BURST && arrived == MAX_BURST).then_some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_work_for_every_length_that_is_tried() {
        let (mut copying, mut keeping) = (Rig::new(u32::MAX).unwrap(), Rig::new(0).unwrap());
        for len in LENGTHS {
            assert!(copying.fastest(len).is_some_and(|cycles| cycles > 0), "{len}");
            assert!(!copying.to.keeps());
            assert!(keeping.fastest(len).is_some_and(|cycles| cycles > 0), "{len}");
            assert!(keeping.to.keeps(), "the last burst is still out");
        }
        assert!(measure().is_some_and(|bytes| LENGTHS.contains(&bytes)));
    }
}
