//! LXC containers around programs, each in a network namespace that exists already.

use crate::error::output_of;
use crate::netns::Namespace;
use crate::switch::Unavailable;
use crate::{Error, Result};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// The program that runs another one in a container.
const PROGRAM: &str = "lxc-execute";

/// Returns the version of LXC, and the reason if it is not here.
pub fn available() -> std::result::Result<String, Unavailable> {
    let missing = |_| Unavailable(format!("there is no {PROGRAM}: install Debian's package lxc"));
    let version = output_of(Command::new(PROGRAM).arg("--version")).map_err(missing)?;
    Ok(format!("LXC {}", String::from_utf8_lossy(&version).trim()))
}

/// Returns a command that runs `command`, with its arguments and environment, in a container of its own. The container sees the
/// host's files and only its own processes, and ends with the command that it is run by. `directory`, which is empty, holds its
/// description.
pub fn wrap(namespace: &Namespace, directory: &Path, command: &Command) -> Result<Command> {
    let description = directory.join("config");
    let text = describe(namespace, command)?;
    std::fs::write(&description, text).map_err(Error::io("describing a container"))?;
    let mut outside = Command::new(PROGRAM);
    // Names of containers are the host's: that of its namespace is unique.
    outside.args(["-n", &format!("millrace-{}", namespace.name())]).arg("-P").arg(directory);
    outside.arg("-f").arg(description).arg("--").arg(command.get_program()).args(command.get_args());
    Ok(outside)
}

fn describe(namespace: &Namespace, command: &Command) -> Result<String> {
    let mut text = format!("lxc.namespace.share.net = {}\n", namespace.name());
    // Without a terminal: the program keeps its own input and output. The devices are the host's.
    text += "lxc.console.path = none\nlxc.autodev = 0\nlxc.mount.auto = proc:rw sys:rw\n";
    for (name, value) in command.get_envs() {
        let pair = value.and_then(|value| Some((name.to_str()?, value.to_str()?)));
        let (name, value) =
            pair.ok_or_else(|| Error::malformed(format!("{name:?} for a container"), "it is no text"))?;
        // Writing to a string does not fail.
        let _ = writeln!(text, "lxc.environment = {name}={value}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Launch;
    use std::time::{Duration, Instant};

    const LIMIT: Duration = Duration::from_secs(60);
    const TICK: Duration = Duration::from_millis(20);

    #[test]
    fn a_program_in_a_container_has_its_own_processes_and_the_given_network() {
        let namespace = Namespace::create().unwrap_or_else(|error| panic!("as root: {error}"));
        namespace.run("ip", &["link", "add", "here", "type", "veth", "peer", "name", "there"]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mut inside = Command::new("sh");
        inside.args(["-c", "echo up $WORD $(ls /sys/class/net); read word; exec sleep 60"]).env("WORD", "a b");
        let outside = wrap(&namespace, directory.path(), &inside).unwrap();
        let mut daemon = Launch::new("container").interactive().spawn(outside).unwrap();
        let line = daemon.wait_for_line("its start", LIMIT, |line| line.starts_with("up")).unwrap();
        assert_eq!(line, "up a b here lo there");
        daemon.send_line("go").unwrap();
        let of_program =
            |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
        let deadline = Instant::now() + LIMIT;
        let program = loop {
            if let Some(program) = daemon.tree().into_iter().find(of_program) {
                break program;
            }
            assert!(Instant::now() < deadline, "its program is not among the descendants");
            std::thread::sleep(TICK);
        };
        let status = std::fs::read_to_string(format!("/proc/{program}/status")).unwrap();
        let ids = status.lines().find(|line| line.starts_with("NSpid:")).unwrap();
        assert_eq!(ids.split_ascii_whitespace().count(), 3, "the program has no process id of its own: {ids}");
        // It ends with its owner.
        drop(daemon);
        let deadline = Instant::now() + LIMIT;
        while Path::new(&format!("/proc/{program}")).exists() {
            assert!(Instant::now() < deadline, "the program outlives its container");
            std::thread::sleep(TICK);
        }
    }
}
