//! Command line options of a wire.

use crate::load::{MAX_SIZE, MIN_SIZE, TouchLevel, power_of_two};
use clap::Args;
use std::path::PathBuf;
use vhost_user::frontend::QueueSizes;

/// A network function behind a switch, and how it is measured.
#[derive(Clone, Debug, Args)]
pub struct FunctionOptions {
    /// Socket of the switch that the network function connects to; the NIC's own, to measure without a switch
    pub function: PathBuf,
    /// Bytes of a frame, without its checksum
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(i64::from(MIN_SIZE)..=i64::from(MAX_SIZE)))]
    pub size: u16,
    /// Part of every frame that the network function touches, and that a wire checks
    #[arg(long, value_enum, default_value_t = TouchLevel::Header)]
    pub touch: TouchLevel,
    /// Ask for packed rings for the network function
    #[arg(long)]
    pub packed: bool,
    /// Descriptors of the network function's queues, powers of two: of the one that it receives from and of the one that
    /// it sends to, or of both
    #[arg(long, value_name = "RX[:TX]", default_value = "256", value_parser = queue_sizes)]
    pub queue_size: QueueSizes,
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

/// One wire.
#[derive(Clone, Debug, Args)]
pub struct WireOptions {
    /// Socket of the NIC, which is created; the switch connects to it by a virtio-user port
    pub device: PathBuf,
    /// The network function at its other end.
    #[command(flatten)]
    pub behind: FunctionOptions,
    /// Count the frames that come back without checking them: for switches that leave copies out
    #[arg(long)]
    pub unchecked: bool,
    /// Frames on their way at most
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..))]
    pub window: u64,
    /// Put frames into VXLAN on their way to the switch, and expect them so: VNI 100, the switch's end is 192.0.2.1 and
    /// 02:00:00:00:01:01, the wire's 192.0.2.2 and 02:00:00:00:01:02
    #[arg(long)]
    pub vxlan: bool,
    /// Let the network function keep the frames that it gets, and check them there
    #[arg(long)]
    pub sink: bool,
}

/// Largest queue of a function: buffers are counted in 16 bits.
const MAX_QUEUE: u16 = 16_384;

/// Parses sizes of a receive and a transmit queue, as "1024:256", or "256" for both.
pub fn queue_sizes(text: &str) -> Result<QueueSizes, String> {
    let (receive, transmit) = text.split_once(':').unwrap_or((text, text));
    let sizes = QueueSizes { receive: power_of_two(receive)?, transmit: power_of_two(transmit)? };
    if sizes.receive.max(sizes.transmit) > MAX_QUEUE { Err(format!("more than {MAX_QUEUE}")) } else { Ok(sizes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_queues_are_powers_of_two() {
        assert_eq!(queue_sizes("64"), Ok(64.into()));
        assert_eq!(queue_sizes("8192:256"), Ok(QueueSizes { receive: 8192, transmit: 256 }));
        for wrong in ["", "0", "100", "64:", ":64", "64:65", "32768", "a:b"] {
            assert!(queue_sizes(wrong).is_err(), "{wrong}");
        }
    }
}
