//! Millrace as the switch: two vhost-user ports, or one behind a wire, and one worker.

use super::scenario::Forward;
use crate::programs::{Idle, Interrupt, LIMIT, Millrace, MillraceError, Ring, beside};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the program to run: `given`, or else the one beside this program.
pub fn program(given: Option<&Path>) -> Result<PathBuf, MillraceError> {
    const HINT: &str = ", or name another by --millrace";
    match given {
        None => beside("millrace", "millrace", HINT),
        Some(path) if path.is_file() => Ok(path.to_owned()),
        Some(path) => Err(MillraceError::Missing { path: path.to_owned(), package: "millrace", hint: HINT }),
    }
}

/// Starts the program with a port on each socket and one worker on processor `cpu`, and waits until it answers. Its files are
/// in `directory`. With a wire, the first port is the driver of the NIC there, with rings of this format.
pub fn start(
    path: &Path,
    (directory, sockets): (&Path, &[PathBuf; 2]),
    (forward, wire): (Forward, Option<Ring>),
    (cpu, idle): (usize, Idle),
    interrupt: &Interrupt,
) -> Result<Millrace, MillraceError> {
    let text = configuration(sockets, (forward, wire), (cpu, idle));
    let mut millrace = Millrace::start(path, (directory, "millrace"), &text, (None, None), interrupt)?;
    // A wire creates its own socket.
    let there = || sockets.iter().all(|socket| socket.exists()).then_some(());
    millrace.program().wait_for("its sockets", LIMIT, |_| there())?;
    if forward == Forward::Openflow {
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

fn configuration(
    sockets: &[PathBuf; 2],
    (forward, wire): (Forward, Option<Ring>),
    (cpu, idle): (usize, Idle),
) -> String {
    const BRIDGE: &str = "[[bridge]]\nname = \"br0\"\nports = [\"a\", \"b\"]\n\n";
    let mut text = String::new();
    for (name, socket) in ["a", "b"].iter().zip(sockets) {
        let driver = match wire {
            Some(ring) if *name == "a" => format!("\"virtio-user\"\npacked = {}", ring == Ring::Packed),
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
            (Forward::Bridge, Idle::Sleep, Some(Ring::Split)),
            (Forward::Map, Idle::Backoff, Some(Ring::Packed)),
            (Forward::BridgeMap, Idle::Poll, Some(Ring::Split)),
            (Forward::Openflow, Idle::Poll, None),
        ] {
            let sockets = ["0.sock", "1.sock"].map(|name| directory.path().join(name));
            std::fs::write(&file, configuration(&sockets, (forward, wire), (0, idle))).unwrap();
            let read = millrace::config::Config::load(&file);
            assert!(read.is_ok(), "{read:?}");
        }
    }
}
