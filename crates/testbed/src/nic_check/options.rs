//! Command line options of the check.

use clap::Args;
use std::path::PathBuf;

/// Where frames come from, and command lines to begin with.
const HELP: &str = "\
Frames have to reach the device from somewhere:
  --peer    a cable joins it to another port of this machine: an interface, if the kernel
            has that port, or else its PCI address
  --looped  what the device sends comes back to it: by a loopback plug, or from another
            machine that returns every frame, such as a Millrace with a patch between its
            port and one of driver `loopback`
  --echo    a traffic generator is at the other end: its frames are sent back to it, and
            their bytes are not checked
Without these, virtual devices get another end where the check can make one, in network
namespaces: net_af_packet without `iface` a veth interface, net_tap the other side of its
tap. net_null makes frames by itself. A NIC stays alone: the check sends nothing then, and
says which questions are open.

Nothing else may use the device, nor the interface of --peer. Exit status: 0 if nothing is
wrong, even if the device is not mapped; 1 if it does not open, if a byte was wrong, if
buffers did not come back, or if memory was written to after that.

Examples:
  testbed nic-check net_af_packet0                        see what it does, without a NIC
  testbed nic-check 0000:3b:00.0 --peer eth1              a cable between two ports
  testbed nic-check 0000:3b:00.0 --peer 0000:3b:00.1      both given to vfio-pci
  testbed nic-check 0000:3b:00.0 --looped --json >a.json  for a report: see docs/dpdk.md";

/// A check of a device.
#[derive(Clone, Debug, Args)]
#[command(after_help = HELP)]
pub struct NicCheck {
    /// The device, as `devices` of `[dpdk]` names it: a PCI address, or a virtual device with its arguments
    pub device: String,
    /// The other end of its cable: an interface of the kernel, or another device of DPDK
    #[arg(long, value_name = "INTERFACE|DEVICE", conflicts_with_all = ["looped", "echo"])]
    pub peer: Option<String>,
    /// The device gets the frames that it sends back
    #[arg(long, conflicts_with = "echo")]
    pub looped: bool,
    /// Others send frames to the device, and take them back
    #[arg(long)]
    pub echo: bool,
    /// Frames each way of which every byte is checked
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub frames: u64,
    /// Guests that leave while frames flow
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub guests: u32,
    /// Bytes of frames whose rate is measured, without their checksum
    #[arg(long, value_delimiter = ',', default_value = "64,512,1514", value_parser = clap::value_parser!(u16).range(60..=1514))]
    pub size: Vec<u16>,
    /// Rounds, in each of which every rate is measured once mapped and once copied; 0 measures none
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub rounds: u32,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// Descriptors of each ring of the device, a power of two [default: the switch's own]
    #[arg(long, value_parser = loadgen::load::power_of_two)]
    pub queue_size: Option<u16>,
    /// Memory of DPDK, as `memory` of `[dpdk]`
    #[arg(long, default_value = "256M")]
    pub memory: String,
    /// Seconds to wait for what may be late: the link, the mapping, the next frame, and buffers to come back
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub patience: u64,
    /// Processors of the switch, its guest, the load and the peer [default: the first four, or as many as there are]
    #[arg(long, value_name = "CPU,...", value_delimiter = ',')]
    pub cpus: Vec<usize>,
    /// Millrace's program [default: the one next to this program]
    #[arg(long, value_name = "FILE")]
    pub millrace: Option<PathBuf>,
    /// Print the report as JSON, and the table to standard error
    #[arg(long)]
    pub json: bool,
}
