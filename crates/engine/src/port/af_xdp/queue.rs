//! A queue of an AF_XDP port: its socket, and the memory that it uses. A mapping closes the socket and opens another one with
//! other memory; the port's other queues continue meanwhile.

use super::device::{Device, OVERHEAD, OpenedQueue, Pools, RELEASE};
use super::rings::{RxRings, TxRings};
use super::{Steered, Stuck, UmemView, XdpReceive, XdpTransmit};
use crate::port::af_packet::PacketReceive;
use crate::port::pool::Pool;
use crate::port::zero_copy::{Direction, Lending, Mapped, ZeroCopyQueue};
use crate::port::{ReceiveHalf, TransmitHalf};
use netdev::{PacketRx, RxConfig};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use virtqueue::NET_HEADER;
use virtqueue::memory::Memory;
use xsk::{Bound, Queue};

/// Both directions of an open socket, before workers have them.
struct Prepared {
    receive: Option<RxRings>,
    transmit: Option<TxRings>,
}

/// A queue of an open port.
pub(super) struct XdpQueue {
    device: Arc<Device>,
    index: usize,
    pools: Pools,
    view: UmemView,
    /// `None` while the socket is closed.
    prepared: Option<Prepared>,
    bound: Option<Bound>,
    stuck: Arc<Stuck>,
    /// Guests' memories asked for, the only addresses whose frames may land there, and the reason if they were refused.
    memories: Vec<Arc<Memory>>,
    macs: Option<Vec<[u8; 6]>>,
    refused: Option<String>,
}

impl XdpQueue {
    pub(super) fn new(device: Arc<Device>, index: usize, OpenedQueue { pools, socket }: OpenedQueue) -> XdpQueue {
        let mut queue = XdpQueue {
            view: device.own.clone(),
            device,
            index,
            pools,
            prepared: None,
            bound: None,
            stuck: Arc::default(),
            memories: Vec::new(),
            macs: None,
            refused: None,
        };
        queue.take(socket);
        queue
    }

    fn take(&mut self, opened: Queue) {
        self.bound = Some(opened.bound().clone());
        let Queue { fill, rx, tx, completion } = opened;
        let (receive, transmit) = (RxRings { rx, fill }, TxRings { tx, completion });
        self.prepared = Some(Prepared { receive: Some(receive), transmit: Some(transmit) });
    }

    /// Opens the socket with the memories of guests.
    fn reach_guests(&mut self) -> Result<(), String> {
        let view = self.device.guest_view(&self.memories)?;
        // Steers before the kernel has any buffer of theirs.
        self.device.steer(self.index, self.macs.as_deref())?;
        self.view = view;
        self.open()
    }

    /// Opens the socket with the switch's own memory only.
    fn reach_own(&mut self) -> Result<(), String> {
        self.view = self.device.own.clone();
        self.device.steer(self.index, None)?;
        self.open()
    }

    fn open(&mut self) -> Result<(), String> {
        let opened = self.device.open_queue(self.index, &self.view)?;
        self.take(opened);
        Ok(())
    }

    /// Takes a half by `take`, after opening the socket if it is closed.
    fn half<T>(&mut self, take: impl Fn(&mut Prepared) -> Option<T>) -> Result<T, String> {
        if self.prepared.is_none() {
            self.open().inspect_err(|_| self.device.fail())?;
        }
        self.prepared.as_mut().and_then(take).ok_or_else(|| "it runs already".to_owned())
    }

    fn pool(&self, direction: Direction) -> Result<Pool, String> {
        let Device { arena, size, .. } = &*self.device;
        let Pools { receive, transmit } = self.pools;
        let first = if direction == Direction::FromGuest { transmit } else { receive };
        self.view.pool(arena.clone(), first, *size).ok_or_else(|| "its memory is in pieces".to_owned())
    }

    /// Adds all frames that are steered to the kernel to the half of queue 0, if there can be any: any queue may have a guest
    /// for which they are steered, also if this one has none.
    fn with_passed(&self, half: XdpReceive, mapped: Option<Arc<Mapped>>) -> Result<ReceiveHalf, String> {
        if self.index > 0 || self.macs.is_none() || self.device.is_zero_copy() {
            return Ok(Box::new(half));
        }
        let Device { site, watched, .. } = &*self.device;
        let rings = PacketRx::open(&watched.link, 1, &RxConfig::default()).map_err(|e| e.to_string())?;
        let ring = rings.into_iter().next().ok_or("there is no packet socket")?;
        *watched.passed.lock().unwrap() = vec![ring.monitor()];
        let passed = PacketReceive::new(ring, site.drops().clone(), Arc::default());
        Ok(Box::new(Steered::new(half, passed, mapped)))
    }
}

impl ZeroCopyQueue for XdpQueue {
    fn is_coupled(&self) -> bool {
        // One socket serves both directions.
        true
    }

    fn rests_to_share(&self, memories: &[Arc<Memory>], macs: Option<&[[u8; 6]]>) -> bool {
        let same = |(a, b): (&Arc<Memory>, &Arc<Memory>)| Arc::ptr_eq(a, b);
        let other = memories.len() != self.memories.len() || !memories.iter().zip(&self.memories).all(same);
        // Queue 0 also receives the frames of all queues that are steered to the kernel.
        let steers = self.index == 0 || !memories.is_empty();
        other || steers && macs != self.macs.as_deref()
    }

    fn share(&mut self, memories: &[Arc<Memory>], macs: Option<&[[u8; 6]]>) -> Result<(), String> {
        if !self.rests_to_share(memories, macs) {
            return self.refused.clone().map_or(Ok(()), Err);
        }
        self.memories = memories.to_vec();
        self.macs = macs.map(<[_]>::to_vec);
        self.prepared = None;
        self.refused = if memories.is_empty() { None } else { self.reach_guests().err() };
        if memories.is_empty() || self.refused.is_some() {
            // If this fails, the port is opened again.
            self.reach_own().unwrap_or_else(|_| self.device.fail());
        }
        self.refused.clone().map_or(Ok(()), Err)
    }

    fn stop(&mut self, direction: Direction) -> Result<(), String> {
        self.prepared = None;
        // `Watched::count` owns a socket while it looks at it. With the lock held it does not, so the socket is closed.
        drop(self.device.watched.sockets.lock().unwrap());
        // Nor does another queue of the guest that opens its socket at the same time.
        self.view.umem().settle();
        // In copy mode that suffices.
        if let Some(bound) = self.bound.as_ref().filter(|bound| bound.zero_copy) {
            // Long enough for both directions; for the other one this only checks the result.
            let patience = if direction == Direction::ToGuest { RELEASE } else { Duration::ZERO };
            bound.wait_released(patience).map_err(|error| {
                self.device.fail();
                error.to_string()
            })?;
        }
        self.bound = None;
        Ok(())
    }

    fn fail(&mut self) {
        self.device.fail();
    }

    fn start_receive(&mut self, mapped: Option<Arc<Mapped>>) -> Result<ReceiveHalf, String> {
        let rings = self.half(|prepared| prepared.receive.take())?;
        let room = NET_HEADER + self.view.umem().chunks().frame_limit(self.device.is_zero_copy());
        let pool = self.pool(Direction::ToGuest)?;
        let lending = mapped.clone().map(|mapped| Lending::new(mapped, room));
        let (stuck, drops) = (self.stuck.clone(), self.device.site.drops().clone());
        let unfinished = self.device.unfinished.clone();
        let half = XdpReceive::new(rings, self.view.clone(), pool, lending, stuck, drops, unfinished);
        self.with_passed(half.map_err(|e| e.to_string())?, mapped)
    }

    fn start_transmit(&mut self, mapped: Option<Arc<Mapped>>) -> Result<TransmitHalf, String> {
        let rings = self.half(|prepared| prepared.transmit.take())?;
        let limit = (self.device.watched.link.mtu + OVERHEAD) as u32;
        let pool = self.pool(Direction::FromGuest)?;
        let half = XdpTransmit::new(rings, self.view.clone(), pool, limit, mapped, self.stuck.clone());
        Ok(Box::new(half))
    }
}

impl Device {
    /// Has the port opened again.
    fn fail(&self) {
        self.watched.failed.store(true, Ordering::Relaxed);
    }
}
