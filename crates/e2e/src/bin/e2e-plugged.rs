//! A guest in a virtual machine whose memory comes and goes under load; checks each frame, and what is written to memory that has gone.
//!
//! `e2e-plugged SOCKET split|packed CONTROL QUEUE STREAM`: CONTROL is the switch's control socket, QUEUE the physical queue of the mapping,
//! as `port.queue`, and STREAM the number of the stream (`Echoed`) that it receives.

use std::path::Path;
use std::process::ExitCode;

use api::request::Stats;
use client::Client;
use e2e::virtio::{By, Plugged, Sink};
use engine::stats::{MappingStats, Snapshot};

/// Lengths of frames.
const SIZES: std::ops::RangeInclusive<usize> = 60..=1514;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("e2e-plugged: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<String, Box<dyn std::error::Error>> {
    let [socket, format, control, queue, stream] = arguments else {
        return Err("usage: e2e-plugged SOCKET split|packed CONTROL QUEUE STREAM".into());
    };
    let mapping = || mapping(Path::new(control), queue).expect("the switch has a mapping");
    let stream = stream.parse()?;
    let sink = Sink::new(stream, stream, SIZES);
    let mut guest = Plugged::connect(Path::new(socket), format == "packed", sink, mapping);
    guest.in_place();
    for (by, early) in [(By::Slot, false), (By::Table, true)] {
        guest.come_and_go(by, early)?;
    }
    guest.fill()?;
    Ok(format!("{:?}", guest.mapping()))
}

fn mapping(control: &Path, queue: &str) -> Option<MappingStats> {
    let stats: Snapshot = Client::connect(control).ok()?.call(&Stats {}).ok()?;
    stats.mappings.into_iter().find(|mapping| mapping.from == queue)
}
