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
    /// How it joins its two ports.
    pub forward: Forward,
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
    sockets: &[PathBuf; 2],
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

fn configuration(sockets: &[PathBuf; 2], Setup { forward, wire, cpu, idle }: Setup) -> String {
    const BRIDGE: &str = "[[bridge]]\nname = \"br0\"\nports = [\"a\", \"b\"]\n\n";
    let mut text = String::new();
    for (name, socket) in ["a", "b"].iter().zip(sockets) {
        let driver = match wire {
            Some(ring) if *name == "a" => format!("\"virtio-user\"\npacked = {}", ring == RingFormat::Packed),
            _ => "\"vhost-user\"".to_owned(),
        };
        let socket = socket.display().to_string();
        text += &format!("[[port]]\nname = \"{name}\"\ndriver = {driver}\nsocket = {socket:?}\n\n");
    }
    match forward {
        Forward::Patch => text += "[[patch]]\nports = [\"a\", \"b\"]\n\n",
        Forward::Bridge => text += BRIDGE,
        Forward::Map => text += "[[mapping]]\nfrom = \"a\"\nto = \"b\"\nmode = \"pass-through\"\n\n",
        Forward::Openflow => {
            text += &BRIDGE.replace("ports", "openflow = true\nports");
            text += &format!("[openflow]\nlisten = [\"unix:{CHANNEL}\"]\n\n");
        }
        Forward::BridgeMap => text = text + BRIDGE + "[[mapping]]\nfrom = \"a\"\nto = \"b\"\n\n",
    }
    text + &format!("[[worker]]\ncpu = {cpu}\nidle = \"{idle}\"\n")
}

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
        ] {
            let sockets = ["0.sock", "1.sock"].map(|name| directory.path().join(name));
            std::fs::write(&file, configuration(&sockets, Setup { forward, wire, cpu: 0, idle })).unwrap();
            let read = millrace::config::Config::load(&file);
            assert!(read.is_ok(), "{read:?}");
        }
    }
}
