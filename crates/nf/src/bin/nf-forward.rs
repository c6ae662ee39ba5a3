//! Forwards frames as they are, between pairs of ports or back to where they came from.

use clap::Parser;
use nf::cli::{Common, Native};
use nf::{Packet, Ports};
use std::process::ExitCode;

/// Forward frames as they are: from port 1 to port 2 and back, from 3 to 4 and back; with an odd number, the last
/// port's frames go back to where they came from.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    native: Native,
}

fn main() -> ExitCode {
    let mut burst: Vec<Packet> = Vec::new();
    let Arguments { common, native } = Arguments::parse();
    common.run(native, |ports: &mut Ports| {
        let count = ports.len();
        (0..count)
            .map(|from| {
                let received = ports[from].receive(&mut burst);
                if received > 0 {
                    let to = if from ^ 1 < count { from ^ 1 } else { from };
                    ports[to].transmit_all(&mut burst);
                }
                received
            })
            .sum()
    })
}
