//! A TCP proxy: local services get a network path over Millrace, past the kernel's network stack.

use clap::{CommandFactory, Parser};
use nf::cli::{self, Common, tell};
use nf::proxy::{Limits, Options, Prefix, Proxy, Reach, Serve, frame_len};
use nf::wire::MacAddr;
use std::net::Ipv4Addr;
use std::process::ExitCode;

/// End TCP in user space at a port, and pass the bytes of connections to local sockets and back.
#[derive(Parser)]
#[command(version, mut_arg("queue_size", |option| option.default_value("1024")))]
struct Arguments {
    /// Ethernet address
    #[arg(long)]
    mac: MacAddr,
    /// IPv4 address and length of the network's prefix, such as 10.0.0.2/24
    #[arg(long)]
    ip: Prefix,
    /// IPv4 address of the router to other networks
    #[arg(long)]
    gateway: Option<Ipv4Addr>,
    /// Bytes of the longest IP packet; all hosts of the network must have the same
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u16).range(576..=9000))]
    mtu: u16,
    /// Offer a local service to the network: a port, and unix:PATH or 127.0.0.1:PORT; any number of times
    #[arg(long, value_name = "PORT=LOCAL")]
    serve: Vec<Serve>,
    /// Offer a service of the network locally: unix:PATH or 127.0.0.1:PORT, and the service's address; any number of times
    #[arg(long, value_name = "LOCAL=IP:PORT")]
    reach: Vec<Reach>,
    /// Most connections at a time
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=4096))]
    connections: u16,
    /// Most connections from the network of one address [default: as many as of all]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4096))]
    connections_per_source: Option<u16>,
    /// Most connections from the network whose handshake is not over; the oldest of the busiest address gives way to another one
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    backlog: u16,
    /// KiB of each of a connection's two buffers, to and from the network
    #[arg(long, default_value_t = 256, value_name = "KIB", value_parser = clap::value_parser!(u32).range(4..=4096))]
    connection_buffer: u32,
    #[command(flatten)]
    common: Common,
}

fn main() -> ExitCode {
    let mut arguments = cli::parse::<Arguments>();
    let refuse = |what: &str| Arguments::command().error(clap::error::ErrorKind::ValueValidation, what).exit();
    if arguments.common.sockets.len() != 1 {
        refuse("a proxy has one port: give one socket, and start a proxy for each further one");
    }
    if arguments.common.aggregation.is_some() {
        refuse("a proxy does not aggregate: let the switch do so, by [aggregation] of its configuration");
    }
    let options = Options {
        mac: arguments.mac,
        address: arguments.ip,
        gateway: arguments.gateway,
        mtu: arguments.mtu,
        serve: arguments.serve,
        reach: arguments.reach,
        limits: Limits {
            connections: arguments.connections.into(),
            per_source: arguments.connections_per_source.unwrap_or(arguments.connections).into(),
            backlog: arguments.backlog.into(),
            buffer: arguments.connection_buffer as usize * 1024,
        },
    };
    // Each frame that the stack makes lies in one buffer.
    arguments.common.buffer_size = arguments.common.buffer_size.max(frame_len(arguments.mtu));
    let mut proxy = match Proxy::new(&options) {
        Ok(proxy) => proxy,
        Err(error) => {
            tell(format_args!("{error}"));
            return ExitCode::FAILURE;
        }
    };
    let outcome = arguments.common.run_work(&mut proxy);
    tell(format_args!("{}", proxy.counters()));
    outcome
}
