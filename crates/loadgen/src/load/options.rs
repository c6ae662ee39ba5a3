//! Command line options of a load.

use super::frame::{MAX_SIZE, MIN_SIZE};
use super::pump::Topology;
use clap::{Args, ValueEnum, builder::BoolishValueParser};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use virtqueue::{MAX_QUEUE_SIZE, features};

/// Part of every frame that the load touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum TouchLevel {
    /// Nothing: frames are made once.
    None,
    /// The first cache line: written when a frame is sent, compared when it comes back.
    Header,
    /// Every byte: written when a frame is sent, compared when it comes back.
    Payload,
}

impl std::fmt::Display for TouchLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            TouchLevel::None => "none",
            TouchLevel::Header => "header",
            TouchLevel::Payload => "payload",
        })
    }
}

/// One load.
#[derive(Clone, Debug, Args)]
pub struct LoadOptions {
    /// The switch's vhost-user sockets; ports 0 and 1 send to each other, as do 2 and 3; a single one to itself. With --chain,
    /// the first and the last send to each other
    #[arg(required = true, value_name = "SOCKET")]
    pub sockets: Vec<PathBuf>,
    /// Create the sockets and wait for the switch to connect, instead of connecting to the switch
    #[arg(long)]
    pub server: bool,
    /// Bytes of a frame, without its checksum
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(i64::from(MIN_SIZE)..=i64::from(MAX_SIZE)))]
    pub size: u16,
    /// Part of every frame that is touched
    #[arg(long, value_enum, default_value_t = TouchLevel::Header)]
    pub touch: TouchLevel,
    /// Ask for packed rings
    #[arg(long)]
    pub packed: bool,
    /// Descriptors of each queue, a power of two
    #[arg(long, default_value_t = 256, value_parser = power_of_two)]
    pub queue_size: u16,
    /// Ask for mergeable receive buffers
    #[arg(long, value_name = "on|off", hide_possible_values = true, default_value = "on", action = clap::ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub mergeable: bool,
    /// Ask for buffers to be used in order
    #[arg(long, value_name = "on|off", hide_possible_values = true, default_value = "on", action = clap::ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub in_order: bool,
    /// Exchange buffers: the ports are in an `[[exchange]]` of Millrace
    #[arg(long)]
    pub exchange: bool,
    /// Be a chain of functions: one between ports 1 and 2, one between 3 and 4, and so on, each of which touches frames and passes
    /// them on in the same buffer
    #[arg(long)]
    pub chain: bool,
    /// Maximum number of frames in flight in each direction
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..))]
    pub window: u64,
    /// Seconds to measure
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Seconds to run before that
    #[arg(long, default_value_t = 0.5)]
    pub warmup: f64,
    /// Seconds without any frame after which those in flight count as lost: more, where the switch loses none, and may have to wait
    /// for a processor
    #[arg(long, default_value_t = 0.2)]
    pub patience: f64,
    /// Processor to run on
    #[arg(long)]
    pub cpu: Option<usize>,
}

impl LoadOptions {
    pub(super) fn topology(&self) -> Topology {
        if self.chain { Topology::Chain } else { Topology::Pairs }
    }

    /// Returns the features to request.
    pub fn features(&self) -> u64 {
        let wanted = |on, mask| if on { mask } else { 0 };
        wanted(self.packed, features::RING_PACKED)
            | wanted(self.mergeable, features::MRG_RXBUF)
            | wanted(self.in_order, features::IN_ORDER)
    }
}

/// Parses the size of a queue.
pub fn power_of_two(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(size) if u16::is_power_of_two(size) && size <= MAX_QUEUE_SIZE => Ok(size),
        _ => Err(format!("not a power of two up to {MAX_QUEUE_SIZE}")),
    }
}
