//! What a wire does, as told on the command line.

use crate::load::{MAX_SIZE, MIN_SIZE, TouchLevel, power_of_two};
use clap::Args;
use std::path::PathBuf;

/// One wire.
#[derive(Clone, Debug, Args)]
pub struct Wire {
    /// Socket of the NIC, which is created; the switch connects to it by a virtio-user port
    pub device: PathBuf,
    /// Socket of the switch that the network function connects to; the NIC's own, to measure without a switch
    pub function: PathBuf,
    /// Bytes of a frame, without its checksum
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(i64::from(MIN_SIZE)..=i64::from(MAX_SIZE)))]
    pub size: u16,
    /// How much of every frame the network function touches, and the wire checks
    #[arg(long, value_enum, default_value_t = TouchLevel::Header)]
    pub touch: TouchLevel,
    /// Ask for packed rings for the network function
    #[arg(long)]
    pub packed: bool,
    /// Descriptors of each queue of the network function, a power of two
    #[arg(long, default_value_t = 256, value_parser = power_of_two)]
    pub queue_size: u16,
    /// Frames on their way at most
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..))]
    pub window: u64,
    /// Put frames into VXLAN on their way to the switch, and expect them so: VNI 100, the switch's end is 192.0.2.1 and
    /// 02:00:00:00:01:01, the wire's 192.0.2.2 and 02:00:00:00:01:02
    #[arg(long)]
    pub vxlan: bool,
    /// Seconds to measure
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Seconds to run before that
    #[arg(long, default_value_t = 0.5)]
    pub warmup: f64,
    /// Processor to run on
    #[arg(long)]
    pub cpu: Option<usize>,
}
