//! State that a device shares with its regions and rules.

use crate::abi::{CHAINS, REGISTERS, RawInfo, RawReceive, RawRegion, RawTransmit, Table, UNFINISHED};
use crate::eal::Dpdk;
use crate::error::{Error, Result};
use crate::half::Claim;
use crate::info::{Abilities, Bus, Info, Limits};
use crate::memory::Range;
use crate::receive::ReceiveQueue;
use crate::sentence::{call, text};
use crate::transmit::TransmitQueue;
use std::any::Any;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A device, as its control functions see it.
pub struct Shared {
    pub dpdk: Dpdk,
    /// As it was named, with arguments.
    pub device: String,
    /// Whether the device registers memory when its queues are set up, so that this is done again when that changes.
    pub registers: bool,
    state: Mutex<State>,
}

/// The halves of each queue.
pub type Queues = Vec<(Arc<ReceiveQueue>, Arc<TransmitQueue>)>;

/// The state of a device. Its lock is taken before that of `Control`.
pub struct State {
    /// The port's number in DPDK, until it is closed.
    pub port: Option<u16>,
    /// Increases when the device is set up, stopped or closed: rules of before are gone.
    pub epoch: u64,
    pub queues: Queues,
    /// Whether DPDK has set up the queues, which the first start does.
    pub are_set_up: bool,
    pub areas: Vec<Area>,
    /// Areas that were taken away while loans in them were out.
    parked: Vec<Area>,
}

/// Memory that the device may reach.
pub struct Area {
    pub number: u64,
    pub range: Range,
    /// Whether the device does so by the IOMMU.
    pub is_mapped: bool,
    /// Keeps the memory mapped here.
    owner: Arc<dyn Any + Send + Sync>,
}

/// Claims of all queues.
pub struct Claims<'a> {
    pub receive: Vec<Claim<'a, RawReceive>>,
    pub transmit: Vec<Claim<'a, RawTransmit>>,
}

impl Claims<'_> {
    /// Says whether the device runs the queues.
    pub fn set_running(&self, running: bool) {
        self.receive.iter().for_each(|queue| queue.set_running(running));
        self.transmit.iter().for_each(|queue| queue.set_running(running));
    }
}

impl State {
    /// Claims all queues, and waits for their workers.
    pub fn claims(&self) -> Claims<'_> {
        let receive = self.queues.iter().map(|(receive, _)| receive.half.claim()).collect();
        Claims { receive, transmit: self.queues.iter().map(|(_, transmit)| transmit.half.claim()).collect() }
    }

    /// Returns the number of buffers and frames in an area that the device has.
    fn within(&self, table: &Table, area: &Area) -> u32 {
        let (claims, raw) = (self.claims(), area.range.raw());
        // SAFETY: the claims give sole use of the halves.
        let receive = claims.receive.iter().map(|queue| unsafe { (table.receive_within)(queue.raw(), &raw) });
        // SAFETY: as above.
        let transmit = claims.transmit.iter().map(|queue| unsafe { (table.transmit_within)(queue.raw(), &raw) });
        receive.chain(transmit).sum()
    }

    /// Ends what was kept for loans that have come back meanwhile.
    fn sweep(&mut self, table: &Table) {
        let parked = mem::take(&mut self.parked);
        self.parked = parked.into_iter().filter(|area| self.within(table, area) > 0).collect();
    }
}

impl Shared {
    pub fn new(dpdk: Dpdk, device: String, port: u16) -> Shared {
        let state = State {
            port: Some(port),
            epoch: 0,
            queues: Vec::new(),
            are_set_up: false,
            areas: Vec::new(),
            parked: Vec::new(),
        };
        Shared { dpdk, device, registers: false, state: Mutex::new(state) }
    }

    /// Waits for other control functions of this device.
    pub fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.sweep(self.dpdk.table());
        state
    }

    /// Returns the port's number in DPDK.
    pub fn port(&self, state: &State) -> Result<u16> {
        state.port.ok_or_else(|| Error::Closed { device: self.device.clone() })
    }

    /// Describes the device.
    pub fn info(&self, port: u16) -> Result<Info> {
        // SAFETY: it has integers only.
        let mut raw: RawInfo = unsafe { mem::zeroed() };
        // SAFETY: it fills `raw`.
        call(|error| unsafe { (self.dpdk.table().info)(port, &mut raw, error) })?;
        let bus = match text(&raw.bus).as_str() {
            "vdev" => Bus::Vdev,
            "pci" => Bus::Pci,
            _ => Bus::Other,
        };
        let limits = |least, most, align| Limits { least, most, align };
        let reason = |text: String| Some(text).filter(|text| !text.is_empty());
        Ok(Info {
            name: text(&raw.name),
            driver: text(&raw.driver),
            bus,
            refusal: reason(text(&raw.refusal)),
            own_only: reason(text(&raw.own_only)),
            registers: raw.flags & REGISTERS != 0,
            receive_queues: raw.receive_queues,
            transmit_queues: raw.transmit_queues,
            receive_ring: limits(raw.receive_least, raw.receive_most, raw.receive_align),
            transmit_ring: limits(raw.transmit_least, raw.transmit_most, raw.transmit_align),
            max_mtu: raw.max_mtu,
            min_room: raw.min_room,
            chains: raw.flags & CHAINS != 0,
            unfinished: raw.flags & UNFINISHED != 0,
            abilities: Abilities::of(raw.flags as u16),
        })
    }

    /// Lets the device reach memory, by the IOMMU if `is_mapped`, and its queues take loans in it.
    pub fn share(&self, range: Range, is_mapped: bool, owner: Arc<dyn Any + Send + Sync>) -> Result<u64> {
        let table = self.dpdk.table();
        let mut state = self.state();
        let port = self.port(&state)?;
        self.dpdk.control().memory.add(table, &range, Some(port).filter(|_| is_mapped))?;
        let number = state.areas.last().map_or(0, |area| area.number + 1);
        state.areas.push(Area { number, range, is_mapped, owner });
        let raw = state.areas[state.areas.len() - 1].range.raw();
        let added = add(table, &state.claims(), &raw);
        state.are_set_up &= !self.registers;
        drop(state);
        added.inspect_err(|_| self.unshare(number))?;
        Ok(number)
    }

    /// Takes memory away from the device. It stays mapped here while loans in it are out, or frames.
    pub fn unshare(&self, number: u64) {
        let table = self.dpdk.table();
        let mut state = self.state();
        let Some(at) = state.areas.iter().position(|area| area.number == number) else { return };
        let area = state.areas.remove(at);
        let raw = area.range.raw();
        forget(table, &state.claims(), &raw);
        state.are_set_up &= !self.registers;
        self.dpdk.control().memory.remove(table, &area.range, area.is_mapped);
        state.parked.push(area);
        state.sweep(table);
    }

    /// Lets go of the halves, after the device was closed or set up anew. Loans that it has not given back never come: their memory
    /// stays mapped for the rest of the process.
    pub fn let_go(&self, state: &mut State) {
        let table = self.dpdk.table();
        state.epoch += 1;
        state.sweep(table);
        mem::forget(mem::take(&mut state.parked));
        for area in &state.areas {
            if state.within(table, area) > 0 {
                mem::forget(area.owner.clone());
            }
            forget(table, &state.claims(), &area.range.raw());
        }
        state.queues.clear();
        state.are_set_up = false;
    }
}

/// Adds a region to all queues.
pub fn add(table: &Table, claims: &Claims<'_>, raw: &RawRegion) -> Result<()> {
    for queue in &claims.receive {
        // SAFETY: the claim gives sole use of the half. It may read the addresses of pages until it has forgotten the region.
        call(|error| unsafe { (table.receive_region)(queue.raw(), raw, error) })?;
    }
    for queue in &claims.transmit {
        // SAFETY: as above.
        call(|error| unsafe { (table.transmit_region)(queue.raw(), raw, error) })?;
    }
    Ok(())
}

/// Has all queues forget a region: they give no more buffers in it to the device.
fn forget(table: &Table, claims: &Claims<'_>, raw: &RawRegion) {
    // SAFETY: the claims give sole use of the halves.
    claims.receive.iter().for_each(|queue| unsafe { (table.receive_forget)(queue.raw(), raw) });
    // SAFETY: as above.
    claims.transmit.iter().for_each(|queue| unsafe { (table.transmit_forget)(queue.raw(), raw) });
}
