//! Linux guests: QEMU virtual machines with virtio-net devices whose other side is a vhost-user switch, or with emulated NICs
//! whose other side is a test.
//!
//! ```no_run
//! use e2e::guest::{Kernel, Nic, Vm, READY};
//! # fn main() -> lab::Result<()> {
//! let kernel = Kernel::prepare()?;
//! let vm = Vm::builder("a").nic(Nic::new("/run/switch/a.sock").packed()).spawn(&kernel)?;
//! vm.wait_ready(READY)?;
//! vm.set_address("eth0", "192.0.2.1/24")?;
//! println!("{}", vm.check("cat /sys/class/net/eth0/address")?);
//! # Ok(())
//! # }
//! ```

mod accel;
mod agent;
mod apt;
mod bzimage;
mod cpio;
mod initramfs;
mod kernel;
mod link;
mod module;
mod net;
mod nic;
mod qemu;
mod vm;

pub use accel::Accel;
pub use agent::{Job, Outcome};
pub use kernel::Kernel;
pub use link::{Link, Socket};
pub use module::Module;
pub use net::{PingReport, move_file};
pub use nic::{Model, Nic};
pub use qemu::Qemu;
pub use vm::{Builder, PATIENCE, READY, Vm};
