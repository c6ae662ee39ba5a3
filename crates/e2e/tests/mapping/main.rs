//! Receive queue mapping: a physical port receives into the buffers of the guest behind another port.

mod af_xdp;
mod auto;
mod bridge;
mod dpdk;
mod dpdk_software;
mod dpdk_vm;
mod hotplug;
mod kicks;
mod lengths;
mod memory;
mod nic_check;
mod refused;
mod steering;
mod virtio_user;
mod vm;
mod wires;
mod withheld;
mod zero_copy;

use e2e::Millrace;

/// Checks that frames are received in place, and that none were lost.
fn look(millrace: &Millrace, frames: u64) {
    let mapping = millrace.mapping();
    assert!(mapping.zero_copy && mapping.in_place + mapping.copied >= frames, "{mapping:?}");
    assert!(mapping.in_place > frames / 2, "{mapping:?}");
    assert!(mapping.sent_in_place > 0, "{mapping:?}");
    nothing_dropped(millrace);
}

/// Checks that no frame was dropped at the two ports of a mapping.
fn nothing_dropped(millrace: &Millrace) {
    for port in ["wan", "fw"] {
        assert_eq!(millrace.port(port).dropped(), 0, "{:?}", millrace.port(port).0);
    }
}
