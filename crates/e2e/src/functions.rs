//! Several functions on one NIC, each mapped to a queue of its own.
//!
//! A cable with a switch at each end: frames that the `near` function of a queue sends arrive at the `far` one.

use std::ops::Range;

use crate::virtio::{Guest, Options, Pump};
use lab::Result;
use lab::millrace::config::{
    AfXdp, At, Part, RawFile, RawMapping, RawPort, RawWorker, SteerKeys, file, pass_through, port, vhost_user,
};

use crate::wire::Cable;
use crate::{Home, Millrace, wait_for};

/// Queues of the NIC, and functions.
pub const QUEUES: usize = 3;

/// Returns the ports of the functions, and a mapping for each.
pub fn functions(name: &str) -> RawFile {
    let name = |queue| format!("{name}{queue}");
    let one = |queue| (vhost_user(&name(queue)), mapping(queue, &name(queue)));
    file((0..QUEUES).map(one).collect::<Vec<_>>())
}

/// Returns the mapping of a queue of the NIC to a function, in which all frames stay in place.
pub fn mapping(queue: usize, to: &str) -> RawMapping {
    RawMapping { copy_break: 0.into(), ..pass_through(&format!("wan.{queue}"), to) }
}

/// Returns the NIC's port, at this end of the cable.
pub fn nic(interface: &str) -> RawPort {
    steered(interface, [])
}

/// Returns the NIC's port with rules for the NIC.
pub fn steered(interface: &str, rules: impl IntoIterator<Item = SteerKeys>) -> RawPort {
    let steer = rules.into_iter().map(At::from).collect();
    port("wan", AfXdp { interface: interface.into(), queues: (QUEUES as i64).into(), steer, ..AfXdp::default() })
}

/// The cable, and the directories of the two switches.
pub struct SharedNic {
    cable: Cable,
    /// Directory of the switch at this end.
    pub near: Home,
    /// Directory of the switch at the other end.
    pub far: Home,
}

impl SharedNic {
    /// Lays the cable.
    pub fn new() -> Result<SharedNic> {
        Ok(SharedNic { cable: Cable::with_queues(QUEUES as u32)?, near: Home::new(), far: Home::new() })
    }

    /// Starts the switches, the near one with this configuration. It must have a mapping for each queue, in their order.
    pub fn start(&self, near: impl Part) -> [Millrace; 2] {
        // While a worker sleeps, the kernel has few buffers of a mapped guest, and may lose frames: here no worker sleeps.
        let far = (nic("up1"), functions("far"), RawWorker::default());
        let switches = [self.near.start_inside(&self.cable.here, near), self.far.start_inside(&self.cable.there, far)];
        switches.iter().for_each(|switch| switch.wait_up(&["wan"]));
        switches
    }

    /// Connects the two functions of a queue, and waits until both are mapped.
    pub fn connect(&self, switches: &[Millrace; 2], queue: usize) -> Result<[Guest; 2]> {
        let near = Options::new(self.near.socket(&format!("near{queue}")));
        let near = if queue.is_multiple_of(2) { near } else { near.packed() };
        let guests = [near.connect()?, Options::new(self.far.socket(&format!("far{queue}"))).connect()?];
        // A queue takes no frames while it is mapped, so these would be lost.
        switches.iter().for_each(|switch| wait_mapped(switch, queue..queue + 1));
        Ok(guests)
    }
}

/// Waits until each of these queues has buffers of its guest.
pub fn wait_mapped(switch: &Millrace, queues: Range<usize>) {
    wait_for(&format!("queues {queues:?} to be mapped, of {:?}", switch.stats().mappings), || {
        let mappings = switch.stats().mappings;
        mappings[queues.clone()].iter().all(|mapping| mapping.zero_copy && mapping.on_loan > 0).then_some(())
    });
}

/// Checks that nothing was dropped at these ports.
pub fn nothing_dropped(switch: &Millrace, ports: &[&str]) {
    ports.iter().for_each(|port| assert_eq!(switch.port(port).dropped(), 0, "{:?}", switch.port(port).0));
}

/// Stops the pumps of the first two functions, and checks that neither has lost a frame.
pub fn nothing_lost(switch: &Millrace, pumps: impl IntoIterator<Item = Pump>) -> Result<()> {
    for (queue, pump) in pumps.into_iter().enumerate() {
        let tally = pump.stop()?;
        assert!(tally.is_complete(), "function {queue} lost frames: {tally:?}");
    }
    nothing_dropped(switch, &["near0", "near1"]);
    Ok(())
}
