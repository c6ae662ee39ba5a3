//! FD.io's VPP, with a bridge domain.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::contract::{PortKind, Running, Setup, SwitchKind, SwitchPort, Unavailable};
use super::sockets::Sockets;
use crate::process::{self, Daemon, Launch};
use crate::steps::Steps;
use crate::{Error, Result, output_of};

/// Time limit for its start, on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Memory in MiB of its 16384 buffers of 2 KiB and their headers, in huge pages.
const MEGABYTES: u64 = 64;

/// FD.io's VPP, which learns addresses.
pub struct Vpp;

impl SwitchKind for Vpp {
    fn name(&self) -> &'static str {
        "vpp"
    }

    fn about(&self) -> &'static str {
        "FD.io's VPP with a bridge domain, which learns addresses"
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
        let version = |program: &str, option: &str| output_of(Command::new(program).arg(option));
        let missing = |error: Error| {
            let advice = "install VPP's packages from packages.fd.io, or build it and have vpp and vppctl in PATH";
            Unavailable(match error {
                Error::MissingTool { tool } => format!("there is no program {tool}: {advice}"),
                error => format!("{error}; {advice}"),
            })
        };
        version("vppctl", "--help").map(drop).or_else(|error| match error {
            // It exists, and nothing else matters.
            Error::Failed { .. } => Ok(()),
            error => Err(missing(error)),
        })?;
        let said = version("vpp", "--version").map_err(missing)?;
        let said = String::from_utf8_lossy(&said).into_owned();
        Ok(format!(
            "VPP {}",
            said.split_ascii_whitespace().nth(1).unwrap_or("of an unknown version").trim_start_matches('v')
        ))
    }

    /// Sets it up as its manual does ("VPP Configuration Reference", cpu): a worker thread with a processor of its own for the
    /// ports, the main thread elsewhere. Ports are polled ("set interface rx-mode"), and its own vhost-user and packet socket
    /// drivers are all the plug-ins that it loads.
    fn start(&self, setup: &Setup<'_>) -> Result<Box<dyn Running>> {
        let sockets = Sockets::of(setup);
        let file = setup.directory.join("startup.conf");
        let text = configuration(setup.directory, setup.processors[0], setup.others);
        std::fs::write(&file, &text).map_err(Error::io(format!("writing {}", file.display())))?;
        let mut steps = Steps::default();
        steps.add(format!("cat > {} <<'END'\n{text}END", file.display()));
        let arguments = ["-c".to_owned(), file.display().to_string()];
        steps.add(process::line("vpp", &arguments));
        let mut command = setup.namespace.command("vpp");
        command.args(&arguments);
        let mut daemon = Launch::measured(self.name(), setup.interrupt).spawn(command)?;
        let console = setup.directory.join("cli.sock");
        daemon.wait_for("its console", LIMIT, || std::os::unix::net::UnixStream::connect(&console).ok())?;
        let mut bridge = Bridge { daemon, console, steps, interfaces: Vec::new(), _sockets: sockets };
        for port in setup.ports {
            bridge.add(port)?;
        }
        Ok(Box::new(bridge))
    }
}

/// Returns the startup configuration. All of its files are in `directory`.
fn configuration(directory: &Path, worker: usize, main: usize) -> String {
    let directory = directory.display();
    format!(
        "unix {{ nodaemon nosyslog nobanner runtime-dir {directory} cli-listen {directory}/cli.sock }}
cpu {{ main-core {main} corelist-workers {worker} }}
memory {{ main-heap-size 256M }}
statseg {{ size 32M socket-name {directory}/stats.sock }}
plugins {{
  plugin default {{ disable }}
  plugin vhost_plugin.so {{ enable }}
  plugin af_packet_plugin.so {{ enable }}
}}
"
    )
}

struct Bridge {
    // Ends before its sockets.
    daemon: Daemon,
    console: PathBuf,
    steps: Steps,
    /// Names of its ports.
    interfaces: Vec<String>,
    _sockets: Sockets,
}

impl Bridge {
    /// Adds a port to the bridge domain.
    fn add(&mut self, port: &SwitchPort) -> Result<()> {
        let create = match port {
            SwitchPort::VhostUser(socket) => format!("create vhost-user socket {} server", socket.display()),
            SwitchPort::Interface(name) => format!("create host-interface name {name}"),
            _ => return Err(Error::malformed("the ports of VPP", "it has vhost-user ports and interfaces only")),
        };
        let interface = self.set(&create)?.trim().to_owned();
        let is_name = !interface.is_empty() && !interface.contains(char::is_whitespace);
        self.expect(&create, &interface, is_name)?;
        let commands = [
            format!("set interface state {interface} up"),
            format!("set interface rx-mode {interface} polling"),
            format!("set interface l2 bridge {interface} 1"),
        ];
        for command in commands {
            let said = self.set(&command)?;
            self.expect(&command, &said, said.trim().is_empty())?;
        }
        self.interfaces.push(interface);
        Ok(())
    }

    /// Runs a command that changes something; returns its output.
    fn set(&mut self, command: &str) -> Result<String> {
        self.steps.add(format!("vppctl -s {} {command}", self.console.display()));
        self.tell(command)
    }

    fn tell(&self, command: &str) -> Result<String> {
        let said = output_of(Command::new("vppctl").arg("-s").arg(&self.console).args(command.split(' ')))?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    /// Returns an error unless a command was a success: its program always reports one.
    fn expect(&self, command: &str, said: &str, success: bool) -> Result<()> {
        if success {
            return Ok(());
        }
        let (command, status) = (command.to_owned(), "refused by VPP".to_owned());
        Err(Error::Failed { command, status, output: said.to_owned() })
    }
}

impl Running for Bridge {
    fn check(&mut self) -> Result<()> {
        self.daemon.check("the end of a measurement")
    }

    fn is_up(&mut self) -> Result<bool> {
        let said = self.tell("show hardware-interfaces")?;
        Ok(self.interfaces.iter().all(|interface| has_link(&said, interface)))
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.daemon.pid()]
    }

    fn commands(&self) -> Vec<String> {
        self.steps.lines()
    }
}

/// Reports whether an interface has a link, in the output of `show hardware-interfaces`: its name, number and link begin a line.
fn has_link(text: &str, interface: &str) -> bool {
    let words = |line: &str| line.split_ascii_whitespace().take(3).map(str::to_owned).collect::<Vec<_>>();
    text.lines().map(words).any(|row| row.len() == 3 && row[0] == interface && row[2] == "up")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found() {
        let text = "              Name                Idx   Link  Hardware
VirtualEthernet0/0/0               1    down  VirtualEthernet0/0/0
  Link speed: unknown
host-eth0                          2     up   host-eth0
local0                             0    down  local0";
        assert!(has_link(text, "host-eth0") && !has_link(text, "VirtualEthernet0/0/0") && !has_link(text, "eth0"));
    }

    #[test]
    fn threads_have_their_processors() {
        let text = configuration(Path::new("/run/x"), 0, 1);
        assert!(
            text.contains("main-core 1 corelist-workers 0") && text.contains("cli-listen /run/x/cli.sock"),
            "{text}"
        );
    }
}
