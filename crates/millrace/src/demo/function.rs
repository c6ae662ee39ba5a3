//! The processes on the other side of the switch: two network functions, of which one sends frames and checks those that the
//! other sends back; and a load.

use clap::{Args, ValueEnum};
use loadgen::load::{self, LoadOptions, TouchLevel};
use nf::wire::{MacAddr, ethernet};
use nf::{Options, Packet, Port, PortOptions, Ports};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum number of frames in flight: as many as a queue holds.
const WINDOW: u64 = 256;
/// Time without a frame after which the last ones are lost: far longer than any takes, however busy the machine is.
const SILENCE: Duration = Duration::from_secs(10);
/// Seconds that a load runs before it measures.
const WARM_UP: f64 = 0.1;
/// Shortest frame: addresses, EtherType and a number.
const SHORTEST: usize = ethernet::HEADER + 8;
/// Experimental EtherType (IEEE 802).
const ETHERTYPE: u16 = 0x88b5;

/// Task of a process of the demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Sends every frame back with its addresses exchanged.
    Echo,
    /// Sends frames and checks those that come back.
    Source,
    /// Is source and sink of two ports, and checks the first line of each frame: faster than any network function.
    Load,
}

/// Arguments of a network function of the demonstration.
#[derive(Clone, Debug, Args)]
pub struct FunctionOptions {
    /// Its task
    #[arg(long)]
    pub role: Role,
    /// Where its port is; a load has two
    #[arg(long, required = true)]
    pub socket: Vec<PathBuf>,
    /// Bytes of a frame
    #[arg(long)]
    pub size: usize,
    /// Processor to run on
    #[arg(long)]
    pub cpu: Option<usize>,
    /// Seconds to measure, if it is a load
    #[arg(long, default_value_t = 0.0)]
    pub seconds: f64,
}

/// Result of the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Frames sent.
    pub sent: u64,
    /// Frames that came back correct.
    pub right: u64,
    /// Frames that came back changed, or out of order.
    pub wrong: u64,
    /// Whether the memory is on huge pages.
    pub huge: bool,
}

/// Commands of the parent process: a line of input starts the function, end of input stops it.
#[derive(Default)]
struct Orders {
    go: AtomicBool,
    stop: AtomicBool,
}

/// Runs a network function from the first line of its standard input to the end of input.
pub fn run(options: &FunctionOptions) -> Result<(), Box<dyn std::error::Error>> {
    if options.role == Role::Load {
        let report = load::run(&load_options(options))?;
        writeln!(std::io::stdout(), "{}", serde_json::to_string(&report)?)?;
        return Ok(());
    }
    if let Some(cpu) = options.cpu {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        // If it fails, the network function runs on any CPU: slower, but correct.
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
    let orders = Arc::new(Orders::default());
    let given = orders.clone();
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let _ = stdin.read_line(&mut String::new());
        given.go.store(true, Ordering::Relaxed);
        // The parent process closed the input or is gone.
        let _ = stdin.read_line(&mut String::new());
        given.stop.store(true, Ordering::Relaxed);
    });
    let mut ports = Ports::open(Options::new(options.socket.iter().map(PortOptions::new).collect()), &orders.stop)?;
    let huge = ports.memory().contains("huge");
    writeln!(std::io::stdout(), "ready")?;
    while !orders.go.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let stop = &orders.stop;
    let Some(port) = ports.iter_mut().next() else { return Ok(()) };
    match options.role {
        Role::Echo => echo(port, stop),
        Role::Source => {
            let tally = Tally { huge, ..source(port, options.size.max(SHORTEST), stop) };
            writeln!(std::io::stdout(), "{}", serde_json::to_string(&tally)?)?;
        }
        Role::Load => {}
    }
    Ok(())
}

fn load_options(options: &FunctionOptions) -> LoadOptions {
    LoadOptions {
        sockets: options.socket.clone(),
        server: false,
        size: options.size as u16,
        touch: TouchLevel::Header,
        packed: false,
        queue_size: WINDOW as u16,
        mergeable: true,
        in_order: true,
        exchange: false,
        chain: false,
        window: WINDOW,
        seconds: options.seconds,
        warmup: WARM_UP,
        patience: SILENCE.as_secs_f64(),
        cpu: options.cpu,
    }
}

fn echo(port: &mut Port, stop: &AtomicBool) {
    let mut burst: Vec<Packet> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        if port.receive(&mut burst) == 0 {
            // The other network function may need this processor.
            std::thread::yield_now();
            continue;
        }
        burst.iter_mut().for_each(|packet| ethernet::swap_addresses(packet));
        port.transmit_all(&mut burst);
    }
}

fn source(port: &mut Port, size: usize, stop: &AtomicBool) -> Tally {
    let mut tally = Tally::default();
    let mut burst: Vec<Packet> = Vec::new();
    // When the last frame came back, once no more are sent.
    let mut last: Option<Instant> = None;
    loop {
        let stopped = stop.load(Ordering::Relaxed);
        let back = tally.right + tally.wrong;
        if stopped && (back == tally.sent || last.is_some_and(|last| last.elapsed() > SILENCE)) {
            return tally;
        }
        let received = port.receive(&mut burst);
        if stopped && (received > 0 || last.is_none()) {
            last = Some(Instant::now());
        }
        for packet in burst.drain(..) {
            // The switch keeps the order, so the expected number of every frame is known.
            let number = tally.right + tally.wrong;
            if is_right(&packet, number, size) {
                tally.right += 1;
            } else {
                tally.wrong += 1;
            }
        }
        let mut sent = 0;
        while !stopped && sent < 32 && tally.sent - (tally.right + tally.wrong) < WINDOW {
            let Some(mut packet) = port.alloc(size) else { break };
            fill(&mut packet, tally.sent);
            if port.transmit(packet).is_err() {
                break;
            }
            tally.sent += 1;
            sent += 1;
        }
        port.flush();
        if received == 0 && sent == 0 {
            port.reclaim();
            std::thread::yield_now();
        }
    }
}

const HERE: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x0a]);
const THERE: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x0b]);

/// Returns word `index` of the payload of frame `number`: all different, cheap to compute.
fn word(number: u64, index: usize) -> [u8; 8] {
    (number ^ (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes()
}

fn fill(frame: &mut [u8], number: u64) {
    ethernet::write(frame, THERE, HERE, ETHERTYPE);
    for (index, chunk) in frame[ethernet::HEADER..].chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&word(number, index)[..chunk.len()]);
    }
}

/// Reports whether `frame` is frame `number` with its addresses exchanged.
fn is_right(frame: &[u8], number: u64, size: usize) -> bool {
    frame.len() == size
        && ethernet::destination(frame) == HERE
        && ethernet::source(frame) == THERE
        && ethernet::ethertype(frame) == Some(ETHERTYPE)
        && frame[ethernet::HEADER..].chunks(8).enumerate().all(|(i, chunk)| chunk == &word(number, i)[..chunk.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_bit_is_seen() {
        for size in [SHORTEST, 64, 1514] {
            let mut frame = vec![0; size];
            fill(&mut frame, 7);
            ethernet::swap_addresses(&mut frame);
            assert!(is_right(&frame, 7, size));
            assert!(!is_right(&frame, 8, size));
            for at in 0..size {
                frame[at] ^= 1;
                assert!(!is_right(&frame, 7, size), "byte {at}");
                frame[at] ^= 1;
            }
        }
    }
}
