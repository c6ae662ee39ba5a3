//! Options of the measurement.

use crate::hosts::Between;
use clap::Args;
use std::path::PathBuf;

/// Which switches, and the stream.
#[derive(Clone, Debug, Args)]
pub struct Tcp {
    /// Switches between the hosts; the first one is the base of all ratios
    #[arg(long, value_enum, value_delimiter = ',', default_value = "veth,interfaces,taps,ovs")]
    pub lines: Vec<Between>,
    /// Bytes of the longest IP packet
    #[arg(long, value_delimiter = ',', default_value = "1500,9000", value_parser = clap::value_parser!(u16).range(576..=9000))]
    pub mtu: Vec<u16>,
    /// The sender cuts its messages and finishes checksums itself, as frames come over a wire
    #[arg(long)]
    pub segments: bool,
    /// Streams at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub streams: u16,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
    /// Rounds, in which every switch has its turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Processor of the sender
    #[arg(long, value_name = "CPU", default_value_t = 0)]
    pub sender_cpu: usize,
    /// Processor of the receiver
    #[arg(long, value_name = "CPU", default_value_t = 1)]
    pub receiver_cpu: usize,
    /// Processor of the switch: with the receiver's, the sender wakes one processor for both
    #[arg(long, value_name = "CPU", default_value_t = 1)]
    pub switch_cpu: usize,
    /// Millrace's program [default: the one next to this program]
    #[arg(long, value_name = "FILE")]
    pub millrace: Option<PathBuf>,
    /// Print JSON instead of the table
    #[arg(long)]
    pub json: bool,
    /// Directory for the results [default: bench/results/DATE-tcp]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl Tcp {
    /// Returns notes for a reader.
    pub fn notes(&self) -> Vec<String> {
        let Tcp { segments, streams, seconds, sender_cpu, receiver_cpu, switch_cpu, .. } = self;
        [
            format!("iperf3, {streams} at a time, {seconds} s"),
            format!(
                "pinned: sender to processor {sender_cpu}, receiver to {receiver_cpu}, switch to {switch_cpu}; Millrace and \
                 Open vSwitch sleep when idle"
            ),
            "processor time is that of the whole machine".to_owned(),
        ]
        .into_iter()
        .chain(segments.then(|| "the sender cuts its messages and finishes checksums".to_owned()))
        .collect()
    }
}
