//! Snabb, with its learning bridge.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::contract::{PortKind, Running, Setup, SwitchKind, SwitchPort, Unavailable};
use super::sockets::Sockets;
use crate::process::{self, Daemon, Launch};
use crate::steps::Steps;
use crate::{Error, Result, output_of};

/// Time limit for its start, on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Time limit for its end, on which a child that watches it removes its files.
const END: Duration = Duration::from_secs(10);

/// Interval of checks for the end of that child.
const LOOK: Duration = Duration::from_millis(10);

/// Memory in MiB that it asks for at first.
const MEGABYTES: u64 = 128;

/// Line that our script prints before it forwards.
const BEGUN: &str = "forwarding";

/// Snabb, which learns addresses.
pub struct Snabb;

impl SwitchKind for Snabb {
    fn name(&self) -> &'static str {
        "snabb"
    }

    fn about(&self) -> &'static str {
        "Snabb with its learning bridge"
    }

    fn ports(&self) -> &'static [PortKind] {
        &[PortKind::VhostUser, PortKind::Interface]
    }

    fn learns(&self) -> bool {
        true
    }

    fn processors(&self) -> usize {
        1
    }

    fn megabytes(&self) -> u64 {
        MEGABYTES
    }

    fn available(&self) -> std::result::Result<String, Unavailable> {
        let said = output_of(Command::new("snabb").arg("--version")).map_err(|error| {
            let advice = "build it from github.com/snabbco/snabb with `make`, and have src/snabb in PATH";
            Unavailable(match error {
                Error::MissingTool { tool } => format!("there is no program {tool}: {advice}"),
                error => format!("{error}; {advice}"),
            })
        })?;
        let said = String::from_utf8_lossy(&said);
        Ok(format!("Snabb {}", said.split_ascii_whitespace().nth(1).unwrap_or("of an unknown version")))
    }

    /// Runs it with a script, as its guide says (README of `snsh`, of the bridge, vhost-user and raw socket apps), on one processor
    /// that it polls on (`engine.busywait`).
    fn start(&self, setup: &Setup<'_>) -> Result<Box<dyn Running>> {
        let sockets = Sockets::of(setup);
        let file = setup.directory.join("bridge.lua");
        let text = script(setup.ports)?;
        std::fs::write(&file, &text).map_err(Error::io(format!("writing {}", file.display())))?;
        let mut steps = Steps::default();
        steps.add(format!("cat > {} <<'END'\n{text}END", file.display()));
        let arguments = ["snsh".to_owned(), file.display().to_string()];
        steps.add(format!("taskset -c {} {}", setup.processors[0], process::line("snabb", &arguments)));
        let mut command = setup.namespace.command("snabb");
        command.args(&arguments);
        let mut daemon = Launch::measured(self.name(), setup.interrupt).pin(setup.processors).spawn(command)?;
        daemon.wait_for_line("its start", LIMIT, |line| line == BEGUN)?;
        Ok(Box::new(Bridge { daemon, steps, _sockets: sockets }))
    }
}

/// Returns the script that joins the ports by a learning bridge.
fn script(ports: &[SwitchPort]) -> Result<String> {
    let names: Vec<String> = (0..ports.len()).map(|number| format!("\"port{number}\"")).collect();
    let mut text = format!(
        "local c = config.new()
config.app(c, \"bridge\", require(\"apps.bridge.learning\").bridge, {{ ports = {{ {} }} }})
",
        names.join(", ")
    );
    for (number, port) in ports.iter().enumerate() {
        let app = match port {
            SwitchPort::VhostUser(socket) => format!(
                "require(\"apps.vhost.vhost_user\").VhostUser, {{ socket_path = \"{}\", is_server = true }}",
                socket.display()
            ),
            SwitchPort::Interface(name) => format!("require(\"apps.socket.raw\").RawSocket, \"{name}\""),
            _ => return Err(Error::malformed("the ports of Snabb", "it has vhost-user ports and interfaces only")),
        };
        text += &format!("config.app(c, \"port{number}\", {app})\n");
        text += &format!("config.link(c, \"port{number}.tx -> bridge.port{number}\")\n");
        text += &format!("config.link(c, \"bridge.port{number} -> port{number}.rx\")\n");
    }
    text += "engine.configure(c)\n";
    // It asks its listening sockets in each round, and would wait at the first one that no guest connects to.
    text += "for _, app in pairs(engine.app_table) do\n  if app.listen_socket then\n    \
             assert(require(\"syscall\").fcntl(app.listen_socket, \"setfl\", \"nonblock\"))\n  end\nend\n";
    text += "engine.busywait = true\n";
    text += &format!("print(\"{BEGUN}\")\nio.stdout:flush()\nengine.main({{ no_report = true }})\n");
    Ok(text)
}

struct Bridge {
    // Ends before its sockets.
    daemon: Daemon,
    steps: Steps,
    _sockets: Sockets,
}

impl Running for Bridge {
    fn check(&mut self) -> Result<()> {
        self.daemon.check("the end of a measurement")
    }

    fn processes(&self) -> Vec<u32> {
        self.daemon.tree()
    }

    fn commands(&self) -> Vec<String> {
        self.steps.lines()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let supervisors = process::descendants(self.daemon.pid());
        // If it does not end by itself, its guard ends it.
        let _ = self.daemon.terminate(END);
        let is_there = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
        let deadline = Instant::now() + END;
        while supervisors.iter().any(is_there) && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_has_an_app_and_two_links() {
        let ports = [SwitchPort::VhostUser("/run/a.sock".into()), SwitchPort::Interface("eth0".to_owned())];
        let script = script(&ports).unwrap();
        assert!(script.contains("{ ports = { \"port0\", \"port1\" } }"), "{script}");
        assert!(script.contains("socket_path = \"/run/a.sock\"") && script.contains("RawSocket, \"eth0\""), "{script}");
        assert_eq!(script.matches("config.link").count(), 4);
        assert!(super::script(&[SwitchPort::Netmap("vale0:1".to_owned())]).is_err());
    }
}
