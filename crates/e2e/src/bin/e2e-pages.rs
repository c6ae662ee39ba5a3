//! Sends frames by one port of a switch and checks those that arrive at another, from inside a virtual machine.
//!
//! `e2e-pages FROM TO FRAMES [plain] [lossy]`: the sockets of both ports. FROM has its packets in pages, or with `plain` in
//! long buffers, so that it also sends frames of 9 KB. With `lossy`, frames may be missing, but not change places.

use nf::{Exchange, Options, Packet, PortOptions, Ports};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Frames in flight.
const WINDOW: u64 = 64;

/// Time after which frames that have not arrived are lost.
const LOST: Duration = Duration::from_millis(500);

/// Time limit for all.
const PATIENCE: Duration = Duration::from_secs(100);

/// Bytes before a frame's number.
const HEAD: usize = 14;

type Failed = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("e2e-pages: {error}");
            ExitCode::FAILURE
        }
    }
}

fn open(socket: &str, plain: bool) -> Result<Ports, Failed> {
    let exchange = if plain { Exchange::None } else { Exchange::Pages(PathBuf::from("/dev/zcopy")) };
    let defaults = Options::new(vec![PortOptions::new(socket)]);
    let buffer_size = if plain { 9216 } else { defaults.buffer_size };
    Ok(Ports::open(Options { exchange, buffer_size, ..defaults }, &AtomicBool::new(false))?)
}

fn length(number: u64, plain: bool) -> usize {
    let lengths = [60, 64, 1514, 2048, 3072, 3900, 3956, 1000];
    if plain && number.is_multiple_of(3) { 9018 } else { lengths[(number % 8) as usize] }
}

fn fill(frame: &mut [u8], number: u64) {
    frame[..HEAD].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    frame[HEAD..HEAD + 8].copy_from_slice(&number.to_le_bytes());
    for (at, byte) in frame.iter_mut().enumerate().skip(HEAD + 8) {
        *byte = (at as u64 ^ number ^ at as u64 >> 8) as u8;
    }
}

fn run(arguments: &[String]) -> Result<String, Failed> {
    let [from, to, frames, more @ ..] = arguments else { return Err("FROM TO FRAMES [plain] [lossy]".into()) };
    let has = |word: &str| more.iter().any(|argument| argument == word);
    let (plain, lossy, frames) = (has("plain"), has("lossy"), frames.parse::<u64>()?);
    let (mut from, mut to) = (open(from, plain)?, open(to, false)?);
    let began = Instant::now();
    let (mut sent, mut due, mut arrived, mut last) = (0u64, 0u64, 0u64, Instant::now());
    let (mut burst, mut received, mut expected): (Vec<Packet>, Vec<Packet>, Vec<u8>) = Default::default();
    while arrived < frames {
        if began.elapsed() > PATIENCE {
            return Err(format!("{arrived} of {frames} frames arrived, and {sent} were sent").into());
        }
        let may_send = if lossy { sent - due < WINDOW || last.elapsed() > LOST } else { sent - due < WINDOW };
        if may_send && (lossy || sent < frames) {
            for _ in 0..8 {
                let len = length(sent, plain);
                let Some(mut packet) = from[0].alloc(len) else { break };
                fill(&mut packet, sent);
                burst.push(packet);
                sent += 1;
            }
            last = Instant::now();
        }
        from[0].transmit_all(&mut burst);
        from[0].reclaim();
        if to[0].receive(&mut received) == 0 {
            // The switch and the functions need the processors.
            e2e::rest();
        }
        for packet in received.drain(..) {
            let bytes: Vec<u8> = packet.chunks().flatten().copied().collect();
            let number = bytes.get(HEAD..HEAD + 8).and_then(|number| Some(u64::from_le_bytes(number.try_into().ok()?)));
            let number = number.ok_or("a frame without a number")?;
            if number < due || number > due && !lossy {
                return Err(format!("frame {number} instead of {due}").into());
            }
            expected.resize(length(number, plain), 0);
            fill(&mut expected, number);
            if bytes != expected {
                return Err(format!("frame {number} has changed: {} bytes arrived", bytes.len()).into());
            }
            due = number + 1;
            arrived += 1;
            last = Instant::now();
        }
    }
    Ok(format!("{arrived} frames of {sent}"))
}
