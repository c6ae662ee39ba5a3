//! Receive queue mapping: a physical port receives into the buffers of the guest behind another port.

mod af_xdp;
mod bridge;
mod hotplug;
mod kicks;
mod memory;
mod refused;
mod steering;
mod virtio_user;
mod vm;
mod withheld;
mod zero_copy;
