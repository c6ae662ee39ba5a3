//! Millrace as the switch: two vhost-user ports, or one behind a wire, and one worker.

use super::choices::Forward;
use crate::millrace::{Files, Idle, LIMIT, Millrace, MillraceError};
use crate::ring_format::RingFormat;
use crate::surroundings::Surroundings;
use lab::process::Interrupt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How Millrace forwards, and where.
#[derive(Clone, Copy)]
pub struct Setup {
    /// How it joins its ports, two and two.
    pub forward: Forward,
    /// Bytes of the longest frame.
    pub longest: u16,
    /// With a wire, the first port is the driver of the NIC there, with rings of this format.
    pub wire: Option<RingFormat>,
    /// Processor of its worker.
    pub cpu: usize,
    /// Idle behaviour of its worker.
    pub idle: Idle,
}

/// Starts the program with a port on each socket and one worker, and waits until it answers. Its files are in `directory`.
pub fn start(
    path: &Path,
    directory: &Path,
    sockets: &[PathBuf],
    setup: Setup,
    interrupt: &Interrupt,
) -> Result<Millrace, MillraceError> {
    let text = configuration(sockets, setup);
    let files = Files { directory, name: "millrace" };
    let mut millrace = Millrace::start(path, files, &text, Surroundings::default(), interrupt)?;
    // A wire creates its own socket.
    let there = || sockets.iter().all(|socket| socket.exists()).then_some(());
    millrace.daemon().wait_for("its sockets", LIMIT, there)?;
    if setup.forward == Forward::Openflow {
        set_flows(&directory.join(CHANNEL))?;
    }
    Ok(millrace)
}

/// Name of the OpenFlow socket.
const CHANNEL: &str = "openflow.sock";

/// Sets flows that send frames from each port out of the other.
fn set_flows(channel: &Path) -> Result<(), MillraceError> {
    for flow in ["in_port=1,actions=output:2", "in_port=2,actions=output:1"] {
        let mut ofctl = Command::new("ovs-ofctl");
        ofctl.args(["-O", "OpenFlow13", "add-flow", &format!("unix:{}", channel.display()), flow]);
        let output = ofctl.output().map_err(MillraceError::Flows)?;
        if !output.status.success() {
            return Err(MillraceError::Flows(std::io::Error::other(
                String::from_utf8_lossy(&output.stderr).into_owned(),
            )));
        }
    }
    Ok(())
}

/// Returns the names of the two ports of a pair.
fn names(pair: usize) -> [String; 2] {
    ["a", "b"].map(|end| if pair == 0 { end.to_owned() } else { format!("{end}{pair}") })
}

fn configuration(sockets: &[PathBuf], setup: Setup) -> String {
    let Setup { forward, longest, wire, cpu, idle } = setup;
    let mut text = String::new();
    let mut all = Vec::new();
    for (pair, sockets) in sockets.chunks(2).enumerate() {
        for (name, socket) in names(pair).into_iter().zip(sockets) {
            let driver = match wire {
                Some(ring) if name == "a" => format!("\"virtio-user\"\npacked = {}", ring == RingFormat::Packed),
                _ => "\"vhost-user\"".to_owned(),
            };
            let socket = socket.display().to_string();
            text += &format!("[[port]]\nname = \"{name}\"\ndriver = {driver}\nsocket = {socket:?}\n\n");
            all.push(name);
        }
        text += &joined(forward, pair);
    }
    if forward == Forward::Openflow {
        text += &format!("[openflow]\nlisten = [\"unix:{CHANNEL}\"]\n\n");
    }
    if forward.exchanges() {
        text += &format!("[[exchange]]\nports = {all:?}\nbuffer-size = {}\n\n", longest.max(USUAL_BUFFER));
    }
    text + &format!("[[worker]]\ncpu = {cpu}\nidle = \"{idle}\"\n")
}

/// Returns what joins a pair of ports.
fn joined(forward: Forward, pair: usize) -> String {
    let ports = names(pair);
    let [a, b] = &ports;
    let bridge = |more: &str| format!("[[bridge]]\nname = \"br{pair}\"\n{more}ports = {ports:?}\n\n");
    match forward {
        Forward::Patch | Forward::Exchange => format!("[[patch]]\nports = {ports:?}\n\n"),
        Forward::Bridge | Forward::BridgeExchange => bridge(""),
        Forward::Map => format!("[[mapping]]\nfrom = \"{a}\"\nto = \"{b}\"\nmode = \"pass-through\"\n\n"),
        Forward::Openflow => bridge("openflow = true\n"),
        Forward::BridgeMap => bridge("") + &format!("[[mapping]]\nfrom = \"{a}\"\nto = \"{b}\"\n\n"),
    }
}

/// Bytes of frames that a function's buffers usually hold.
const USUAL_BUFFER: u16 = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn millrace_takes_the_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("m.toml");
        for (forward, idle, wire) in [
            (Forward::Patch, Idle::Poll, None),
            (Forward::Bridge, Idle::Sleep, Some(RingFormat::Split)),
            (Forward::Map, Idle::Backoff, Some(RingFormat::Packed)),
            (Forward::BridgeMap, Idle::Poll, Some(RingFormat::Split)),
            (Forward::Openflow, Idle::Poll, None),
            (Forward::Exchange, Idle::Poll, None),
            (Forward::BridgeExchange, Idle::Poll, None),
        ] {
            // An OpenFlow switch has one bridge, and a wire is one pair.
            let count = if forward.exchanges() { 6 } else { 2 };
            let sockets: Vec<_> = (0..count).map(|number| directory.path().join(format!("{number}.sock"))).collect();
            let setup = Setup { forward, longest: 9014, wire, cpu: 0, idle };
            std::fs::write(&file, configuration(&sockets, setup)).unwrap();
            let read = millrace::config::Config::load(&file);
            assert!(read.is_ok(), "{read:?}");
        }
    }
}
