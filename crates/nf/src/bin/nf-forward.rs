//! Forwards frames as they are, between pairs of ports or back to where they came from.

use clap::Parser;
use nf::cli::{self, Common, Native, Workers};
use nf::crew::{Verdict, View};
use nf::{Cycles, Packet, Ports};
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
    /// Spend this many cycles of the time-stamp counter on each packet, for experiments
    #[arg(long, default_value_t = 0)]
    cycles: u64,
    #[command(flatten)]
    workers: Workers,
}

fn main() -> ExitCode {
    let Arguments { common, native, cycles, workers } = cli::parse::<Arguments>();
    let load = (cycles > 0).then(|| (Cycles::new(), cycles));
    let spend = |packets: usize| {
        if let Some((clock, cycles)) = &load {
            clock.spend(cycles * packets as u64);
        }
    };
    let count = common.sockets.len();
    let opposite = |from: usize| if from ^ 1 < count { from ^ 1 } else { from };
    if let Some(crew) = workers.crew() {
        return common.run_crew(crew, native, || {
            |frame: &mut View| {
                spend(1);
                Verdict::Send(opposite(frame.port().into()) as u16)
            }
        });
    }
    let mut burst: Vec<Packet> = Vec::new();
    common.run(native, |ports: &mut Ports| {
        (0..count)
            .map(|from| {
                let received = ports[from].receive(&mut burst);
                if received > 0 {
                    spend(received);
                    ports[opposite(from)].transmit_all(&mut burst);
                }
                received
            })
            .sum()
    })
}
