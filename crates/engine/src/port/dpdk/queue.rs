//! A queue of a DPDK port: its sides while no worker has them, and the memory that the device reaches for it.

use super::device::{Device, Sides};
use super::reception::Reception;
use super::rx::Parts;
use super::shared::SharedMemory;
use super::transmission::Transmission;
use super::{DpdkReceive, DpdkTransmit, Home};
use crate::port::own_frames::OwnFrames;
use crate::port::zero_copy::{Direction, LEND_ROOM, Lending, Mapped, ZeroCopyQueue};
use crate::port::{ReceiveHalf, TransmitHalf};
use packet::header_len;
use std::sync::Arc;
use virtqueue::NET_HEADER;
use virtqueue::memory::Memory;

/// Bytes that a frame to a guest may begin later, to make room for a tag.
const VLAN_TAG: u32 = header_len::VLAN_TAG as u32;

/// A queue of an open port.
pub(super) struct DpdkQueue {
    device: Arc<Device>,
    index: usize,
    receive: Home<Reception>,
    transmit: Home<Transmission>,
    /// Guests' memories asked for, whether with addresses to steer by, those that the device reaches, and the reason if they were refused.
    memories: Vec<Arc<Memory>>,
    is_steered: bool,
    reached: Arc<[Arc<SharedMemory>]>,
    refused: Option<String>,
}

impl DpdkQueue {
    pub(super) fn new(device: Arc<Device>, index: usize, sides: Sides) -> DpdkQueue {
        let queue = DpdkQueue {
            device,
            index,
            receive: Home::default(),
            transmit: Home::default(),
            memories: Vec::new(),
            is_steered: false,
            reached: Arc::new([]),
            refused: None,
        };
        queue.keep(sides);
        queue
    }

    fn keep(&self, Sides { receive, transmit }: Sides) {
        *self.receive.lock().unwrap() = Some(receive);
        *self.transmit.lock().unwrap() = Some(transmit);
    }

    /// Takes both sides, unless a half has one.
    fn take(&self) -> Result<Sides, String> {
        let (mut receive, mut transmit) = (self.receive.lock().unwrap(), self.transmit.lock().unwrap());
        match (receive.take(), transmit.take()) {
            (Some(receive), Some(transmit)) => Ok(Sides { receive, transmit }),
            (one, other) => {
                (*receive, *transmit) = (one, other);
                Err("a worker still has a half of it".to_owned())
            }
        }
    }

    /// Opens the device again if it was closed to end loans.
    fn reopen(&self) -> Result<(), String> {
        let sides = self.device.reopen().inspect_err(|_| self.device.fail())?;
        sides.into_iter().for_each(|sides| self.keep(sides));
        Ok(())
    }
}

impl ZeroCopyQueue for DpdkQueue {
    fn is_coupled(&self) -> bool {
        // Most devices only stop as a whole.
        true
    }

    fn rests_to_share(&self, memories: &[Arc<Memory>], macs: Option<&[[u8; 6]]>) -> bool {
        let same = |(a, b): (&Arc<Memory>, &Arc<Memory>)| Arc::ptr_eq(a, b);
        let is_other = memories.len() != self.memories.len() || !memories.iter().zip(&self.memories).all(same);
        is_other || macs.is_some() != self.is_steered
    }

    fn share(&mut self, memories: &[Arc<Memory>], macs: Option<&[[u8; 6]]>) -> Result<(), String> {
        if self.rests_to_share(memories, macs) {
            // Memory that the device does not need any more is taken away from it first.
            self.reached = Arc::new([]);
            self.memories = memories.to_vec();
            self.is_steered = macs.is_some();
            let shared = if macs.is_some() && !memories.is_empty() {
                Err(self.device.cannot_steer())
            } else {
                memories.iter().map(|memory| self.device.share(self.index, memory)).collect()
            };
            self.refused = shared.map(|reached| self.reached = reached).err();
            self.device.register().inspect_err(|_| self.device.fail())?;
        }
        self.refused.clone().map_or(Ok(()), Err)
    }

    fn stop(&mut self, _: Direction) -> Result<(), String> {
        let mut sides = self.take()?;
        let ended = self.device.end_loans(self.index, &mut sides);
        self.keep(sides);
        ended.inspect_err(|_| self.device.fail())
    }

    fn fail(&mut self) {
        self.device.fail();
    }

    fn start_receive(&mut self, mapped: Option<Arc<Mapped>>) -> Result<ReceiveHalf, String> {
        self.reopen()?;
        let reception = self.receive.lock().unwrap().take().ok_or("it runs already")?;
        let device = &*self.device;
        let pool = device.pool(self.index, Direction::ToGuest)?;
        let room = LEND_ROOM.max(NET_HEADER + reception.queue.least() as u32);
        let parts = Parts {
            own: OwnFrames::new(pool, device.site.drops().clone(), device.unfinished.clone()),
            held_at_most: device.held_at_most(),
            lending: mapped.map(|mapped| Lending::new(mapped, room)),
            reached: self.reached.clone(),
            room: NET_HEADER + VLAN_TAG + device.room(),
            most: reception.most,
        };
        let half = DpdkReceive::new(self.receive.clone(), reception, parts);
        Ok(Box::new(half.map_err(|error| format!("cannot duplicate a descriptor: {error}"))?))
    }

    fn start_transmit(&mut self, mapped: Option<Arc<Mapped>>) -> Result<TransmitHalf, String> {
        self.reopen()?;
        let transmission = self.transmit.lock().unwrap().take().ok_or("it runs already")?;
        let pool = self.device.pool(self.index, Direction::FromGuest)?;
        let (limits, reached) = (self.device.limits(), self.reached.clone());
        Ok(Box::new(DpdkTransmit::new(self.transmit.clone(), transmission, pool, limits, reached, mapped)))
    }
}
