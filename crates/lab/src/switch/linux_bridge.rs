//! The kernel's own bridge.

use serde_json::{Value, json};
use std::io::ErrorKind;

use super::contract::{PortKind, Running, Setup, SwitchKind, SwitchPort, Unavailable};
use crate::netns::Namespace;
use crate::steps::Steps;
use crate::{Error, Result};

/// Name of the bridge's interface.
const BRIDGE: &str = "bridge0";

/// The namespace's settings by which frames of bridges pass netfilter, for IPv4, IPv6 and ARP.
const CALLS: [&str; 3] = ["bridge-nf-call-iptables", "bridge-nf-call-ip6tables", "bridge-nf-call-arptables"];

/// The kernel's own bridge.
pub struct LinuxBridge;

impl SwitchKind for LinuxBridge {
    fn name(&self) -> &'static str {
        "linux-bridge"
    }

    fn about(&self) -> &'static str {
        "the kernel's own bridge"
    }

    fn ports(&self) -> &'static [PortKind] {
        &[PortKind::Interface]
    }

    fn learns(&self) -> bool {
        true
    }

    fn processors(&self) -> usize {
        0
    }

    fn available(&self) -> std::result::Result<String, Unavailable> {
        let make = || Namespace::create()?.run("ip", &["link", "add", BRIDGE, "type", "bridge"]);
        make().map_err(|error| {
            Unavailable(format!("a bridge can't be made; this needs root and CONFIG_BRIDGE: {error}"))
        })?;
        Ok(format!("Linux {}", rustix::system::uname().release().to_string_lossy()))
    }

    /// Makes a bridge that learns and forwards at once, and does nothing else: no spanning tree, no multicast snooping
    /// (ip-link(8), bridge options), and no netfilter (ip-sysctl.rst of the kernel's documentation, "bridge-nf-call").
    fn start(&self, setup: &Setup<'_>) -> Result<Box<dyn Running>> {
        // The guard is there first: what a failed start has made ends, too.
        let namespace = setup.namespace;
        let mut bridge = Bridge { namespace: namespace.clone(), ports: setup.ports.len(), steps: Steps::default() };
        let steps = &mut bridge.steps;
        skip_netfilter(namespace, steps)?;
        let options = ["stp_state", "0", "mcast_snooping", "0", "ageing_time", "30000"];
        let add = ["ip", "link", "add", BRIDGE, "type", "bridge"];
        steps.run(namespace, &[&add[..], &options].concat())?;
        steps.run(namespace, &["ip", "link", "set", BRIDGE, "addrgenmode", "none"])?;
        for port in setup.ports {
            let SwitchPort::Interface(name) = port else {
                return Err(Error::malformed("the ports of linux-bridge", "it has interfaces only"));
            };
            steps.run(namespace, &["ip", "link", "set", name, "master", BRIDGE, "up"])?;
        }
        steps.run(namespace, &["ip", "link", "set", BRIDGE, "up"])?;
        Ok(Box::new(bridge))
    }
}

/// Keeps netfilter away from frames of bridges. A namespace begins with these settings on, and without them if the kernel has no
/// netfilter for bridges.
fn skip_netfilter(namespace: &Namespace, steps: &mut Steps) -> Result<()> {
    for setting in CALLS {
        let path = format!("/proc/sys/net/bridge/{setting}");
        match namespace.within(|| std::fs::write(&path, "0"))? {
            Ok(()) => steps.add(format!("sysctl -w net.bridge.{setting}=0")),
            Err(error) if error.kind() == ErrorKind::NotFound => (),
            Err(error) => return Err(Error::io(format!("writing {path}"))(error)),
        }
    }
    Ok(())
}

/// A running bridge.
struct Bridge {
    namespace: Namespace,
    ports: usize,
    steps: Steps,
}

impl Running for Bridge {
    fn check(&mut self) -> Result<()> {
        Ok(())
    }

    fn is_up(&mut self) -> Result<bool> {
        let links = self.namespace.run("ip", &["-details", "-json", "link", "show", "master", BRIDGE])?;
        let links: Vec<Value> = serde_json::from_str(&links).map_err(Error::other("reading the output of ip"))?;
        let forwards = |link: &&Value| link.pointer("/linkinfo/info_slave_data/state") == Some(&json!("forwarding"));
        Ok(links.iter().filter(forwards).count() == self.ports)
    }

    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    fn commands(&self) -> Vec<String> {
        self.steps.lines()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // It is missing if the start failed early, and a failure cannot be reported here.
        let _ = self.namespace.run("ip", &["link", "delete", BRIDGE]);
    }
}
