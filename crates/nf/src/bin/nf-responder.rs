//! A host that answers ARP and ping.

use clap::Parser;
use nf::cli::{self, Common};
use nf::function::Responder;
use nf::wire::MacAddr;
use nf::{Packet, Ports, Splitter};
use std::net::Ipv4Addr;
use std::process::ExitCode;

/// Answer ARP requests and ICMP echo requests for some addresses, on every port.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Ethernet address
    #[arg(long, default_value = "02:00:00:00:00:01")]
    mac: MacAddr,
    /// IPv4 addresses, separated by commas
    #[arg(long = "ip", required = true, value_delimiter = ',')]
    addresses: Vec<Ipv4Addr>,
    #[command(flatten)]
    common: Common,
}

fn main() -> ExitCode {
    let arguments = cli::parse::<Arguments>();
    let responder = Responder::new(arguments.mac, arguments.addresses);
    let mut burst: Vec<Packet> = Vec::new();
    arguments.common.run(Splitter::Nf, |ports: &mut Ports| {
        let mut received = 0;
        for port in ports.iter_mut() {
            if port.receive(&mut burst) == 0 {
                continue;
            }
            received += burst.len();
            burst.retain_mut(|packet| {
                let len = packet.total_len();
                responder.answer(packet, len)
            });
            port.transmit_all(&mut burst);
        }
        received
    })
}
