//! Options of the measurement.

use super::line::Line;
use clap::Args;
use std::path::PathBuf;

/// Which paths, and the load.
#[derive(Clone, Debug, Args)]
pub struct Redis {
    /// Paths between clients and server; the first one is the base of all ratios
    #[arg(long, value_enum, value_delimiter = ',', default_value = "veth,interfaces,taps,copy,exchange")]
    pub lines: Vec<Line>,
    /// Bytes of the longest IP packet
    #[arg(long, value_delimiter = ',', default_value = "1500,9000", value_parser = clap::value_parser!(u16).range(576..=9000))]
    pub mtu: Vec<u16>,
    /// Bytes of a value
    #[arg(long, value_delimiter = ',', default_value = "64,1024,4096,16384,65536", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub size: Vec<u32>,
    /// Clients, each of which has one request in flight
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub clients: u16,
    /// Requests of each measurement
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(100..))]
    pub requests: u32,
    /// Most MiB of values in a measurement: there are fewer requests of long values
    #[arg(long, default_value_t = 256, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    pub volume: u32,
    /// Rounds, in which every line has its turn at every size
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Processor of the Redis server, and of the proxy before it
    #[arg(long, value_name = "CPU", default_value_t = 0)]
    pub server_cpu: usize,
    /// Processor of the clients, and of the proxy before them
    #[arg(long, value_name = "CPU", default_value_t = 1)]
    pub client_cpu: usize,
    /// Processor of the switch's worker
    #[arg(long, value_name = "CPU", default_value_t = 0)]
    pub switch_cpu: usize,
    /// Millrace's program [default: the one next to this program]
    #[arg(long, value_name = "FILE")]
    pub millrace: Option<PathBuf>,
    /// Print JSON instead of the table
    #[arg(long)]
    pub json: bool,
    /// Directory for the results [default: bench/results/DATE-redis]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl Redis {
    /// Returns the number of requests for values of this length.
    pub fn requests_of(&self, bytes: u32) -> u32 {
        let fits = (u64::from(self.volume) << 20) / u64::from(bytes);
        self.requests.min(fits.max(100) as u32)
    }

    /// Returns notes for a reader.
    pub fn notes(&self) -> Vec<String> {
        let Redis { clients, server_cpu, client_cpu, switch_cpu, .. } = self;
        vec![
            format!("{clients} clients with one request each"),
            format!(
                "pinned: server and its proxy to processor {server_cpu}, clients and their proxy to {client_cpu}, the switch's \
                 worker to {switch_cpu}, so threads share processors, and all sleep when idle"
            ),
            "the kernel's TCP leaves long messages uncut on its lines; the proxies' lines carry frames of the MTU"
                .to_owned(),
        ]
    }
}
