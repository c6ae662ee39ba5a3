//! A guest, on huge pages if there are any, that sends back every frame, forever.
//!
//! `e2e-echo SOCKET split|packed QUEUE-SIZE`

use std::collections::VecDeque;
use std::process::ExitCode;

use e2e::virtio::Options;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("e2e-echo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, format, size] = &arguments[..] else {
        return Err("usage: e2e-echo SOCKET split|packed QUEUE-SIZE".into());
    };
    let options = Options::new(socket).huge_pages().queue_size(size.parse()?);
    let mut guest = if format == "packed" { options.packed() } else { options }.connect()?;
    println!("running");
    let mut frames: VecDeque<Vec<u8>> = VecDeque::new();
    while guest.is_connected() {
        guest.reap()?;
        let received = guest.receive(32, |frame| {
            frames.push_back(frame.to_vec());
            Ok(())
        })?;
        let before = frames.len();
        while let Some(frame) = frames.front()
            && guest.send(&[frame], 1)?
        {
            frames.pop_front();
        }
        guest.flush();
        if received == 0 && frames.len() == before {
            e2e::rest();
        }
    }
    Err("the switch has gone".into())
}
