//! An IPv4 router with static routes.

use clap::{CommandFactory, Parser, error::ErrorKind};
use nf::cli::{self, Common, Workers};
use nf::crew::{Verdict, View};
use nf::function::{Interface, Network, Route, Router, SharedRouter, Surroundings};
use nf::wire::MacAddr;
use nf::{Packet, Ports, Splitter};
use rustix::time::{ClockId, clock_gettime};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Route IPv4 packets between ports: static routes, ARP, ICMP echo and time exceeded.
#[derive(Parser)]
#[command(version)]
#[command(
    after_help = "Example:\n  nf-router a.sock b.sock --address 10.0.1.1/24,10.0.2.1/24 --route 10.9.0.0/16=10.0.2.9"
)]
struct Arguments {
    /// Address and network of every port, separated by commas
    #[arg(long = "address", required = true, value_delimiter = ',', value_name = "IP/BITS")]
    addresses: Vec<Network>,
    /// Ethernet address of every port; 02:00:00:00:01:01 and so on without
    #[arg(long = "mac", value_delimiter = ',', value_name = "MAC")]
    macs: Vec<MacAddr>,
    /// Networks beyond, and the next router to each
    #[arg(long = "route", value_delimiter = ',', value_name = "NETWORK=ROUTER")]
    routes: Vec<Route>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    workers: Workers,
}

/// The router's surroundings: sent frames are collected by port, and transmitted once a round.
struct Around<'a> {
    ports: &'a mut Ports,
    output: &'a mut [Vec<Packet>],
    now: Duration,
}

impl Surroundings<Packet> for Around<'_> {
    fn now(&self) -> Duration {
        self.now
    }

    fn alloc(&mut self, port: usize, len: usize) -> Option<Packet> {
        self.ports[port].alloc(len)
    }

    fn send(&mut self, port: usize, frame: Packet) {
        self.output[port].push(frame);
    }
}

/// Returns the time to some milliseconds: this is asked for each frame, and a precise time costs several times as much.
fn coarse_time() -> Duration {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Ends the program: an argument is wrong.
fn wrong(message: String) -> ! {
    Arguments::command().error(ErrorKind::ValueValidation, message).exit()
}

fn main() -> ExitCode {
    let arguments = cli::parse::<Arguments>();

    let count = arguments.common.sockets.len();
    if arguments.addresses.len() != count {
        wrong(format!("{count} ports, but {} addresses: --address needs one for each port", arguments.addresses.len()));
    }
    let interfaces = (0..).zip(&arguments.addresses).map(|(index, &network)| Interface {
        mac: *arguments.macs.get(index).unwrap_or(&MacAddr([2, 0, 0, 0, 1, index as u8 + 1])),
        network,
    });
    let interfaces = interfaces.collect();
    if let Some(crew) = arguments.workers.crew() {
        let router = SharedRouter::new(interfaces, &arguments.routes);
        let router = router.unwrap_or_else(|unreachable| wrong(unreachable.to_string()));
        return arguments.common.run_crew(crew, Splitter::Nf, || {
            let mut worker = router.worker();
            move |frame: &mut View| match worker.handle(frame.port().into(), frame, coarse_time()) {
                Ok(Some(port)) => Verdict::Send(port as u16),
                Ok(None) | Err(_) => Verdict::Drop,
            }
        });
    }
    let router = Router::new(interfaces, &arguments.routes);
    let mut router = router.unwrap_or_else(|unreachable| wrong(unreachable.to_string()));
    let start = Instant::now();
    let mut burst: Vec<Packet> = Vec::new();
    let mut output: Vec<Vec<Packet>> = (0..count).map(|_| Vec::new()).collect();
    arguments.common.run(Splitter::Nf, |ports: &mut Ports| {
        let mut received = 0;
        for port in 0..count {
            if ports[port].receive(&mut burst) == 0 {
                continue;
            }
            received += burst.len();
            let mut around = Around { ports, output: &mut output, now: start.elapsed() };
            for packet in burst.drain(..) {
                let len = packet.total_len();
                // Drops need no handling: a packet that is not sent is freed.
                let _ = router.handle(port, packet, len, &mut around);
            }
        }
        if received > 0 {
            for (port, packets) in output.iter_mut().enumerate() {
                if !packets.is_empty() {
                    ports[port].transmit_all(packets);
                }
            }
        }
        received
    })
}
