//! Sends every frame back, with source and destination address exchanged.

use clap::Parser;
use nf::cli::{self, Common, Native, Workers};
use nf::crew::{Verdict, View};
use nf::wire::ethernet;
use nf::{Packet, Ports};
use std::process::ExitCode;

/// Send every frame back to where it came from, with source and destination address exchanged.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    native: Native,
    #[command(flatten)]
    workers: Workers,
}

fn main() -> ExitCode {
    let Arguments { common, native, workers } = cli::parse::<Arguments>();
    if let Some(crew) = workers.crew() {
        return common.run_crew(crew, native, || {
            |frame: &mut View| {
                if frame.len() < ethernet::HEADER {
                    return Verdict::Drop;
                }
                frame.embedded().for_each(ethernet::swap_addresses);
                Verdict::Back
            }
        });
    }
    let mut burst: Vec<Packet> = Vec::new();
    common.run(native, |ports: &mut Ports| {
        let mut received = 0;
        for port in ports.iter_mut() {
            if port.receive(&mut burst) == 0 {
                continue;
            }
            received += burst.len();
            burst.retain(|packet| packet.len() >= ethernet::HEADER);
            burst.iter_mut().flat_map(Packet::embedded).for_each(ethernet::swap_addresses);
            port.transmit_all(&mut burst);
        }
        received
    })
}
