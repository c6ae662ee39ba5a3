//! VALE, the switch of netmap's kernel module.

use std::path::Path;

use super::contract::{PortKind, Running, Setup, SwitchKind, SwitchPort, Unavailable};
use crate::netns::Namespace;
use crate::steps::Steps;
use crate::{Error, Result, output_of};

/// Device of the module.
const DEVICE: &str = "/dev/netmap";

/// Directory of the module's settings.
const MODULE: &str = "/sys/module/netmap";

/// Switch of interfaces that no port of netmap names one for.
const DEFAULT: &str = "vale0";

/// VALE, which learns addresses, and runs in the processes that send.
pub struct Vale;

impl SwitchKind for Vale {
    fn name(&self) -> &'static str {
        "vale"
    }

    fn about(&self) -> &'static str {
        "VALE, the learning switch in netmap's kernel module: it runs in the processes that send"
    }

    fn ports(&self) -> &'static [PortKind] {
        &[PortKind::Netmap, PortKind::Interface]
    }

    fn learns(&self) -> bool {
        true
    }

    fn processors(&self) -> usize {
        0
    }

    fn available(&self) -> std::result::Result<String, Unavailable> {
        let advice = "build the module from github.com/luigirizzo/netmap for this kernel, and `modprobe netmap`";
        if !Path::new(DEVICE).exists() {
            return Err(Unavailable(format!("there is no {DEVICE}: {advice}")));
        }
        // Without a version of its own, the kernel has a sum of its source.
        let read = |file: &str| std::fs::read_to_string(format!("{MODULE}/{file}")).ok();
        let version = read("version").or_else(|| read("srcversion"));
        Ok(format!("netmap {}", version.as_deref().map_or("of an unknown version", str::trim)))
    }

    /// Attaches interfaces, as its manual says (vale-ctl(4), option -a). The program that opens a port of netmap creates it
    /// (vale(4)).
    fn start(&self, setup: &Setup<'_>) -> Result<Box<dyn Running>> {
        let switch = common_switch(setup.ports)?;
        let mut vale = Attached { namespace: setup.namespace.clone(), steps: Steps::default(), attached: Vec::new() };
        for port in setup.ports {
            match port {
                SwitchPort::Netmap(_) => (),
                SwitchPort::Interface(interface) => vale.attach(format!("{switch}:{interface}"))?,
                _ => return Err(Error::malformed("the ports of VALE", "it has netmap ports and interfaces only")),
            }
        }
        Ok(Box::new(vale))
    }
}

/// Returns the switch that the ports of netmap name, which must be one.
fn common_switch(ports: &[SwitchPort]) -> Result<&str> {
    let mut switches = ports.iter().filter_map(|port| match port {
        SwitchPort::Netmap(name) => Some(name.split_once(':').map_or(name.as_str(), |(switch, _)| switch)),
        _ => None,
    });
    let first = switches.next().unwrap_or(DEFAULT);
    match switches.find(|&other| other != first) {
        None => Ok(first),
        Some(other) => Err(Error::malformed("the ports of VALE", format!("{first} and {other} are two switches"))),
    }
}

/// Interfaces at the switch.
struct Attached {
    namespace: Namespace,
    steps: Steps,
    /// Switch and interface, as in `vale0:eth0`.
    attached: Vec<String>,
}

impl Attached {
    fn attach(&mut self, port: String) -> Result<()> {
        self.steps.run(&self.namespace, &["vale-ctl", "-a", &port])?;
        self.attached.push(port);
        Ok(())
    }
}

impl Running for Attached {
    fn check(&mut self) -> Result<()> {
        Ok(())
    }

    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    fn commands(&self) -> Vec<String> {
        self.steps.lines()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        for port in &self.attached {
            // A failure cannot be reported here.
            let _ = output_of(self.namespace.command("vale-ctl").args(["-d", port]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ports_are_of_one_switch() {
        let netmap = |name: &str| SwitchPort::Netmap(name.to_owned());
        let interface = SwitchPort::Interface("eth0".to_owned());
        assert_eq!(common_switch(&[netmap("vale1:1"), netmap("vale1:2"), interface.clone()]).unwrap(), "vale1");
        assert_eq!(common_switch(&[interface]).unwrap(), DEFAULT);
        assert!(common_switch(&[netmap("vale1:1"), netmap("vale2:1")]).is_err());
    }
}
