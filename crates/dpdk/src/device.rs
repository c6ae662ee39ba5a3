//! A device, and its control functions.

use crate::abi::{RawConfig, RawLink, RawReceive, RawSizes, RawStats, RawTransmit};
use crate::eal::Dpdk;
use crate::error::{Error, Result};
use crate::half::Half;
use crate::info::{Bus, Config, Info, Link, Stats};
use crate::memory::Range;
use crate::receive::{self, Receive, ReceiveQueue};
use crate::region::Region;
use crate::rule::Rule;
use crate::sentence::call;
use crate::shared::{self, Queues, Shared, State};
use crate::transmit::{self, Transmit, TransmitQueue};
use rustix::event::epoll;
use std::any::Any;
use std::ffi::CString;
use std::fmt;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A device that this process has. Dropping it stops, closes and detaches it.
///
/// Its functions take turns with each other, with those of other devices, and with calls of the workers, for which they wait.
pub struct Device {
    shared: Arc<Shared>,
    info: Info,
}

impl Dpdk {
    /// Finds a device by its name in DPDK, with arguments after a comma, and attaches it if it is not attached yet: a PCI address, or
    /// a virtual device such as "net_tap0,iface=dpdk0". There is one [`Device`] of it at a time.
    pub fn probe(&self, device: &str) -> Result<Device> {
        let name = name_of(device).to_owned();
        let mut control = self.control();
        if control.devices.contains(&name) {
            return Err(Error::Busy { device: device.to_owned() });
        }
        let port = attach(self, device)?;
        let mut shared = Shared::new(self.clone(), device.to_owned(), port);
        let info = shared.info(port)?;
        shared.registers = info.registers;
        control.devices.push(name);
        Ok(Device { shared: Arc::new(shared), info })
    }
}

impl Device {
    /// Returns what the device is.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Sets the device up, not started: queues and their halves. Halves of before return nothing more.
    ///
    /// Fails if the device runs, if it can't receive into buffers of others ([`Info::refusal`]), or if a value does not fit.
    pub fn open(&mut self, config: &Config) -> Result<Vec<(Receive, Transmit)>> {
        if let Some(reason) = &self.info.refusal {
            return Err(Error::Refused { device: self.shared.device.clone(), reason: reason.clone() });
        }
        let mut state = self.shared.state();
        let port = self.shared.port(&state)?;
        let raw = RawConfig {
            queues: config.queues,
            receive_size: config.receive_size,
            transmit_size: config.transmit_size,
            mtu: config.mtu.unwrap_or(0),
            room: config.room,
            interrupts: config.interrupts.into(),
            rss: config.rss.into(),
            work: config.work.flags(),
        };
        let opened = self.open_queues(port, &raw, &state);
        // Whether it succeeded or not: the queues of before are gone.
        self.shared.let_go(&mut state);
        state.queues = opened?;
        let claims = state.claims();
        for area in &state.areas {
            shared::add(self.shared.dpdk.table(), &claims, &area.range.raw())?;
        }
        drop(claims);
        let halves = state.queues.iter();
        Ok(halves.map(|(receive, transmit)| (Receive::new(receive.clone()), Transmit::new(transmit.clone()))).collect())
    }

    fn open_queues(&self, port: u16, config: &RawConfig, state: &State) -> Result<Queues> {
        let _control = self.shared.dpdk.control();
        // DPDK frees what the queues have when it sets them up again.
        let _claims = state.claims();
        // SAFETY: the port is this device's, and the claims keep others from its queues.
        call(|error| unsafe { (self.shared.dpdk.table().configure)(port, config, error) })?;
        let open = |number| Ok((self.receive_half(port, number, config)?, self.transmit_half(port, number, config)?));
        (0..config.queues).map(open).collect()
    }

    fn receive_half(&self, port: u16, number: u16, config: &RawConfig) -> Result<Arc<ReceiveQueue>> {
        let table = self.shared.dpdk.table();
        let events = match config.interrupts {
            0 => None,
            _ => Some(
                epoll::create(epoll::CreateFlags::CLOEXEC)
                    .map_err(|error| Error::Invalid(format!("epoll: {error}")))?,
            ),
        };
        let (mut raw, mut sizes) = (ptr::null_mut::<RawReceive>(), RawSizes::default());
        // SAFETY: the port is this device's. It fills `raw` and `sizes`.
        call(|error| unsafe { (table.receive_open)(port, number, config, &mut raw, &mut sizes, error) })?;
        let raw = NonNull::new(raw).expect("a half that was opened is not null");
        // SAFETY: the half is new. The device lets it go before `Shared::let_go`, which drops it.
        let half = unsafe { Half::new(table, raw, table.receive_close) };
        Ok(Arc::new(ReceiveQueue { half, sizes, events, announces: AtomicBool::new(false) }))
    }

    fn transmit_half(&self, port: u16, number: u16, config: &RawConfig) -> Result<Arc<TransmitQueue>> {
        let table = self.shared.dpdk.table();
        let (mut raw, mut sizes) = (ptr::null_mut::<RawTransmit>(), RawSizes::default());
        // SAFETY: the port is this device's. It fills `raw` and `sizes`.
        call(|error| unsafe { (table.transmit_open)(port, number, config, &mut raw, &mut sizes, error) })?;
        let raw = NonNull::new(raw).expect("a half that was opened is not null");
        // SAFETY: the half is new. The device lets it go before `Shared::let_go`, which drops it.
        let half = unsafe { Half::new(table, raw, table.transmit_close) };
        Ok(Arc::new(TransmitQueue { half, sizes }))
    }

    /// Starts the device. It takes buffers for its rings: lend the reserve before ([`Receive::reserve`]). One that registers memory, and
    /// keeps buffers although it was stopped, does not start again once memory has changed.
    pub fn start(&self) -> Result<()> {
        let mut state = self.shared.state();
        let port = self.shared.port(&state)?;
        let table = self.shared.dpdk.table();
        let _control = self.shared.dpdk.control();
        if !state.are_set_up {
            let claims = state.claims();
            for (receive, transmit) in claims.receive.iter().zip(&claims.transmit) {
                // SAFETY: the claim gives sole use of the half.
                call(|error| unsafe { (table.receive_setup)(receive.raw(), error) })?;
                // SAFETY: as above.
                call(|error| unsafe { (table.transmit_setup)(transmit.raw(), error) })?;
            }
            drop(claims);
            state.are_set_up = true;
        }
        let claims = state.claims();
        // SAFETY: the port is this device's, and the claims keep others from its queues.
        call(|error| unsafe { (table.start_port)(port, error) })?;
        for ((queue, _), claim) in state.queues.iter().zip(&claims.receive) {
            if let Some(events) = &queue.events {
                // SAFETY: the claim gives sole use of the half, and the descriptor is open as long as it.
                let failed = unsafe { (table.receive_events)(claim.raw(), events.as_raw_fd(), true) };
                queue.announces.store(failed == 0, Ordering::Release);
            }
        }
        claims.set_running(true);
        Ok(())
    }

    /// Stops the device. Whether it has given its buffers back, [`Device::loans_out`] says, and not the result: there are drivers that
    /// keep them until the device is closed.
    pub fn stop(&self) -> Result<()> {
        let mut state = self.shared.state();
        let port = self.shared.port(&state)?;
        let _control = self.shared.dpdk.control();
        // Rules go with it, for some drivers.
        state.epoch += 1;
        quiesce(&self.shared, &state);
        let _claims = state.claims();
        // SAFETY: the port is this device's, and the claims keep others from its queues.
        call(|error| unsafe { (self.shared.dpdk.table().stop_port)(port, error) })
    }

    /// Stops one receive queue; [`Error::is_unsupported`] if the driver can't. The others continue.
    pub fn stop_receive(&self, queue: u16) -> Result<()> {
        let state = self.shared.state();
        let half = &self.receive_queue(&state, queue)?.half;
        let _control = self.shared.dpdk.control();
        let claim = half.claim();
        // SAFETY: the claim gives sole use of the half.
        call(|error| unsafe { (claim.table().receive_stop)(claim.raw(), error) })?;
        claim.set_running(false);
        Ok(())
    }

    /// Starts a receive queue again.
    pub fn start_receive(&self, queue: u16) -> Result<()> {
        let state = self.shared.state();
        let half = &self.receive_queue(&state, queue)?.half;
        let _control = self.shared.dpdk.control();
        let claim = half.claim();
        // SAFETY: the claim gives sole use of the half.
        call(|error| unsafe { (claim.table().receive_start)(claim.raw(), error) })?;
        claim.set_running(true);
        Ok(())
    }

    fn receive_queue<'s>(&self, state: &'s State, queue: u16) -> Result<&'s ReceiveQueue> {
        self.shared.port(state)?;
        let queue = state.queues.get(usize::from(queue)).map(|(receive, _)| &**receive);
        queue.ok_or_else(|| Error::Invalid(format!("device {:?} was set up without this queue", self.shared.device)))
    }

    /// Stops, closes and detaches the device. Halves return nothing more, but what waits in them can be taken back.
    pub fn close(&mut self) {
        let mut state = self.shared.state();
        let Some(port) = state.port.take() else { return };
        quiesce(&self.shared, &state);
        {
            let _control = self.shared.dpdk.control();
            let _claims = state.claims();
            // SAFETY: the port is this device's, and the claims keep others from its queues. What is left of a device that can't be
            // closed is not used again.
            let _ = call(|error| unsafe { (self.shared.dpdk.table().remove)(port, error) });
        }
        self.shared.let_go(&mut state);
    }

    /// Closes the device and attaches it again, as it was named. Set it up again then; regions stay. This ends loans that a driver
    /// keeps after [`Device::stop`].
    pub fn reattach(&mut self) -> Result<()> {
        self.close();
        let mut state = self.shared.state();
        let _control = self.shared.dpdk.control();
        state.port = Some(attach(&self.shared.dpdk, &self.shared.device)?);
        Ok(())
    }

    /// Lets the device reach `len` bytes of memory at `addr`, which is made of pages of `page` bytes, and its queues take buffers there.
    /// It may run meanwhile. A device that registers memory ([`Info::registers`]) takes no buffers there until it has been stopped and
    /// started again; so it is with memory that is taken away: until then, the device could still reach it.
    ///
    /// # Safety
    ///
    /// `addr..addr + len` is shared memory to which no Rust reference points, and stays mapped until `owner` is dropped.
    pub unsafe fn share(
        &self,
        addr: *mut u8,
        len: usize,
        page: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Region> {
        // Devices in software use this process's addresses, and so do those that register memory.
        let is_mapped = self.info.bus != Bus::Vdev && !self.info.registers;
        let pagemap = self.shared.dpdk.pagemap().filter(|_| is_mapped);
        let range = Range::new(addr, len, page, pagemap)?;
        let number = self.shared.share(range, is_mapped, owner)?;
        Ok(Region::new(self.shared.clone(), number))
    }

    /// Reports whether the device has registered the memory that is shared with it, and no other. If not, a start will do so.
    pub fn has_registered(&self) -> bool {
        !self.shared.registers || self.shared.state().are_set_up
    }

    /// Returns the state of the link; it is down if the device is closed.
    pub fn link(&self) -> Link {
        let state = self.shared.state();
        let mut raw = RawLink::default();
        if let Some(port) = state.port {
            let _control = self.shared.dpdk.control();
            // SAFETY: it fills `raw`, or leaves it as it is.
            unsafe { (self.shared.dpdk.table().link)(port, &mut raw) };
        }
        let speed = Some(raw.speed).filter(|&speed| speed != 0 && speed != u32::MAX);
        Link { up: raw.up != 0, speed, full_duplex: raw.full_duplex != 0 }
    }

    /// Returns the device's counters; they are zero if it is closed.
    pub fn stats(&self) -> Stats {
        let state = self.shared.state();
        let mut raw = RawStats::default();
        if let Some(port) = state.port {
            let _control = self.shared.dpdk.control();
            // SAFETY: it fills `raw`, or leaves it as it is.
            unsafe { (self.shared.dpdk.table().stats)(port, &mut raw) };
        }
        Stats {
            received: raw.received,
            received_bytes: raw.received_bytes,
            sent: raw.sent,
            sent_bytes: raw.sent_bytes,
            missed: raw.missed,
            no_buffer: raw.no_buffer,
            receive_errors: raw.receive_errors,
            transmit_errors: raw.transmit_errors,
        }
    }

    /// Says whether the device receives frames to all addresses.
    pub fn set_promiscuous(&self, on: bool) -> Result<()> {
        let state = self.shared.state();
        let port = self.shared.port(&state)?;
        let _control = self.shared.dpdk.control();
        // SAFETY: the port is this device's.
        call(|error| unsafe { (self.shared.dpdk.table().promiscuous)(port, on, error) })
    }

    /// Returns the device's address; zero if it is closed.
    pub fn mac(&self) -> [u8; 6] {
        let state = self.shared.state();
        let mut mac = [0; 6];
        if let Some(port) = state.port {
            // SAFETY: it writes six bytes, or none.
            unsafe { (self.shared.dpdk.table().mac)(port, mac.as_mut_ptr()) };
        }
        mac
    }

    /// Has the device put frames to an address into a queue. Fails if the device can't, which only an attempt tells.
    pub fn steer(&self, mac: [u8; 6], queue: u16) -> Result<Rule> {
        Rule::new(&self.shared, &self.shared.state(), mac, queue)
    }

    /// Returns how many of a guest's buffers the device has, and how many frames are being sent.
    pub fn loans_out(&self) -> (u32, u32) {
        let state = self.shared.state();
        let receive = state.queues.iter().map(|(queue, _)| receive::out(&queue.half).guest_at_device).sum();
        (receive, state.queues.iter().map(|(_, queue)| transmit::out(&queue.half)).sum())
    }

    /// Returns how many frames its queues have dropped since they were set up: received ones, and ones to send
    /// ([`ReceiveCounts::dropped`](crate::ReceiveCounts::dropped), [`TransmitCounts::dropped`](crate::TransmitCounts::dropped)).
    pub fn dropped(&self) -> (u64, u64) {
        let state = self.shared.state();
        let receive = state.queues.iter().map(|(queue, _)| receive::counts(&queue.half).dropped).sum();
        (receive, state.queues.iter().map(|(_, queue)| transmit::counts(&queue.half).dropped).sum())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.close();
        let name = name_of(&self.shared.device);
        self.shared.dpdk.control().devices.retain(|device| device != name);
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device {} ({})", self.shared.device, self.info.driver)
    }
}

/// Takes all queues from their workers before the device is stopped: announcements end, and frames that were not passed on go back.
fn quiesce(shared: &Shared, state: &State) {
    let claims = state.claims();
    let table = shared.dpdk.table();
    claims.set_running(false);
    for ((queue, _), claim) in state.queues.iter().zip(&claims.receive) {
        if let Some(events) = queue.events.as_ref().filter(|_| queue.announces.swap(false, Ordering::AcqRel)) {
            // SAFETY: the claim gives sole use of the half, and the descriptor is the one that was added.
            unsafe { (table.receive_events)(claim.raw(), events.as_raw_fd(), false) };
        }
        // SAFETY: the claim gives sole use of the half.
        unsafe { (table.receive_flush)(claim.raw()) };
    }
}

/// Returns a device's name, without arguments.
fn name_of(device: &str) -> &str {
    device.split(',').next().unwrap_or_default()
}

/// Finds or attaches a device; returns the port's number.
fn attach(dpdk: &Dpdk, device: &str) -> Result<u16> {
    let words = CString::new(device).map_err(|_| Error::Invalid(format!("{device:?} has a byte of zero")))?;
    let mut port = 0;
    // SAFETY: it reads a string, and fills `port`.
    call(|error| unsafe { (dpdk.table().probe)(words.as_ptr(), &mut port, error) })?;
    Ok(port)
}
