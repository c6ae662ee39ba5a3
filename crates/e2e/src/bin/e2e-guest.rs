//! A guest for tests to kill: connects to a vhost-user socket and sends and receives bursts, forever.
//!
//! `e2e-guest SOCKET split|packed NUMBER PEER`: the last two name the ends of the stream that it sends.

use std::process::ExitCode;

use e2e::virtio::{Options, Source};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("e2e-guest: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, format, number, peer] = &arguments[..] else {
        return Err("usage: e2e-guest SOCKET split|packed NUMBER PEER".into());
    };
    let options = Options::new(socket);
    let options = if format == "packed" { options.packed() } else { options };
    let mut guest = options.connect()?;
    let mut source = Source::new(number.parse()?, peer.parse()?, 60..=1500);
    println!("running");
    loop {
        guest.reap()?;
        for _ in 0..32 {
            if !source.send(&mut guest)? {
                break;
            }
        }
        guest.flush();
        guest.receive(64, |_| Ok(()))?;
        e2e::rest();
        if source.sent() % 4096 < 32 && !guest.is_connected() {
            return Err("the switch has gone".into());
        }
    }
}
