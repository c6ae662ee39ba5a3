//! The network of a run: hosts and containers as network namespaces, and the cables between them.
//!
//! ```text
//!   container 0    container 1                       container 0      container 1
//!      eth0           eth1                              eth0              eth1
//!       │              │                                 │                 │
//!      p0             p1                                p0                p1
//!      └─── switch ────┘            two hosts:   switch ─┴─ wan ═══ wan ─┴─ switch
//!           host 0                                      host 0    host 1
//! ```
//!
//! vhost-user ports are sockets in a directory, and their containers have no interfaces. A virtual function of a network card moves
//! from its switch's host to its container. If the hosts are two machines, each has its own half of this, and a network card for
//! `wan`.

use super::card::Card;
use super::processors::RunProcessors;
use super::record::AppPlacement;
use crate::scenario::{Location, Point};
use lab::netns::{Namespace, cable};
use lab::switch::{PortKind, SwitchPort};
use lab::{Error, Result};
use loadgen::endpoint::{Addresses, Technique};
use std::path::{Path, PathBuf};

/// Largest frame that the cables carry, without Ethernet's header: more than that of a frame of 1518 bytes.
const MTU: &str = "1600";

/// The part of a network that is on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'c> {
    /// All of it.
    Whole,
    /// One of two hosts, with all that belongs to it.
    Host {
        /// Its number.
        number: u8,
        /// The network card that is cabled to the other host's.
        card: &'c str,
    },
}

/// A host: its namespace and its switch's ports.
pub struct Host {
    /// Its number.
    pub number: u8,
    /// Directory of its switch: its sockets and other files.
    pub directory: PathBuf,
    /// Its namespace.
    pub namespace: Namespace,
    /// The switch's ports: those of the ends here in their order, then the port to the other host.
    pub ports: Vec<SwitchPort>,
}

/// An end of a pair.
pub struct End {
    /// Its number: 0 and 1 are a pair.
    pub number: u8,
    /// Index of its host.
    host: usize,
    /// Index of its container.
    pub container: usize,
    /// Processor of its application.
    pub cpu: usize,
    /// Its port, as an application takes it.
    pub port: String,
}

/// A network.
pub struct Network {
    /// Directory of its sockets, and of the files of its programs.
    pub directory: PathBuf,
    /// The containers of the applications.
    pub containers: Vec<Namespace>,
    /// The ends of all pairs, in their order.
    pub ends: Vec<End>,
    /// The hosts.
    pub hosts: Vec<Host>,
    /// The network card to the other machine.
    _card: Option<Card>,
}

/// Returns the kind of port for a technique among those that a switch can have.
pub fn kind(technique: Technique, possible: &[PortKind]) -> Option<PortKind> {
    let wanted: &[PortKind] = match technique {
        Technique::VirtioUser | Technique::VirtioUserDpdk => &[PortKind::VhostUser],
        Technique::Netmap => &[PortKind::Netmap],
        Technique::Udp
        | Technique::UdpMmsg
        | Technique::Raw
        | Technique::RawMmsg
        | Technique::Tpacket
        | Technique::AfXdp => &[PortKind::Interface, PortKind::VirtualFunction],
    };
    wanted.iter().copied().find(|kind| possible.contains(kind))
}

/// Reports whether all ends of this technique can be in one thread. UDP sockets can't: the kernel would hand packets from one
/// to the other without the switch.
pub fn is_joinable(technique: Technique) -> bool {
    !matches!(technique, Technique::Udp | Technique::UdpMmsg)
}

impl Network {
    /// Makes a part of the network of a point, with ports of this kind; sockets and other files will be below `directory`.
    pub fn make(
        point: &Point,
        kind: PortKind,
        processors: &RunProcessors,
        part: Part<'_>,
        directory: &Path,
    ) -> Result<Network> {
        let ends: Vec<u8> = (0..2 * point.pairs).collect();
        let (hosts, ends): (Vec<u8>, Vec<u8>) = match (part, point.location) {
            (Part::Host { number, .. }, _) => {
                (vec![number], ends.into_iter().filter(|end| end % 2 == number).collect())
            }
            (Part::Whole, Location::Local) => (vec![0], ends),
            (Part::Whole, Location::Remote) => (vec![0, 1], ends),
        };
        let containers = if processors.placement == AppPlacement::Joined { 1 } else { ends.len() };
        let mut network = Network {
            directory: directory.to_owned(),
            containers: (0..containers).map(|_| Namespace::create()).collect::<Result<_>>()?,
            ends: Vec::new(),
            hosts: hosts.into_iter().map(|host| Host::make(directory, host)).collect::<Result<_>>()?,
            _card: None,
        };
        for (index, (number, &cpu)) in ends.into_iter().zip(&processors.ends).enumerate() {
            let (container, host) = (index % containers, index % network.hosts.len());
            let (port, app) = network.attach(kind, number, container, host)?;
            network.hosts[host].ports.push(port);
            network.ends.push(End { number, host, container, cpu, port: app });
        }
        match (&mut network.hosts[..], part) {
            ([host], Part::Host { card, .. }) => {
                network._card = Some(Card::lend(card, &host.namespace)?);
                prepare(&host.namespace, card)?;
                host.ports.push(SwitchPort::Interface(card.to_owned()));
            }
            ([a, b], _) => {
                cable([(&a.namespace, "wan"), (&b.namespace, "wan")])?;
                for host in [a, b] {
                    prepare(&host.namespace, "wan")?;
                    host.ports.push(SwitchPort::Interface("wan".to_owned()));
                }
            }
            _ => {}
        }
        Ok(network)
    }

    /// Makes a port; returns it as the switch and as the application take it.
    fn attach(&self, kind: PortKind, number: u8, container: usize, host: usize) -> Result<(SwitchPort, String)> {
        let (name, own) = (format!("p{number}"), format!("eth{number}"));
        let host = &self.hosts[host];
        match kind {
            PortKind::VhostUser => {
                let socket = host.directory.join(format!("{name}.sock"));
                Ok((SwitchPort::VhostUser(socket.clone()), socket.display().to_string()))
            }
            PortKind::Interface => {
                let (inside, outside) = (&self.containers[container], &host.namespace);
                cable([(inside, &own), (outside, &name)])?;
                prepare(outside, &name)?;
                prepare(inside, &own)?;
                address(inside, &own, number)?;
                Ok((SwitchPort::Interface(name), own))
            }
            PortKind::Netmap => {
                let name = format!("vale{}:{number}", host.number);
                Ok((SwitchPort::Netmap(name.clone()), name))
            }
            PortKind::VirtualFunction => Ok((SwitchPort::VirtualFunction(own.clone()), own)),
        }
    }

    /// Moves interfaces that the switches have made for the applications into their containers.
    pub fn settle(&self) -> Result<()> {
        for End { number, host, container, port, .. } in &self.ends {
            let host = &self.hosts[*host];
            if host.ports.contains(&SwitchPort::VirtualFunction(port.clone())) {
                let container = &self.containers[*container];
                host.namespace.run("ip", &["link", "set", port, "netns", container.name()])?;
                container.run("ip", &["link", "set", port, "up"])?;
                address(container, port, *number)?;
            }
        }
        Ok(())
    }
}

impl Host {
    fn make(directory: &Path, number: u8) -> Result<Host> {
        let directory = directory.join(format!("h{number}"));
        std::fs::create_dir(&directory).map_err(Error::io("making a directory for a switch"))?;
        Ok(Host { number, directory, namespace: Namespace::create()?, ports: Vec::new() })
    }
}

/// Prepares an interface of a cable: it takes long frames, and frames that it sends have their checksums, which most switches do
/// not complete.
fn prepare(namespace: &Namespace, interface: &str) -> Result<()> {
    namespace.run("ip", &["link", "set", interface, "mtu", MTU])?;
    namespace.run("ethtool", &["--offload", interface, "tx", "off"]).map(drop)
}

/// Gives an end's interface its addresses, and those of its peer.
fn address(container: &Namespace, interface: &str, number: u8) -> Result<()> {
    let of = Addresses::of(number);
    let (mac, ip) = (Addresses::mac(of.own).to_string(), format!("{}/24", Addresses::ip(of.own)));
    let (peer_mac, peer) = (Addresses::mac(of.peer).to_string(), Addresses::ip(of.peer).to_string());
    let ip_of = |arguments: &[&str]| container.run("ip", arguments).map(drop);
    ip_of(&["link", "set", interface, "address", &mac, "arp", "on"])?;
    ip_of(&["address", "add", &ip, "dev", interface])?;
    ip_of(&["neighbour", "replace", &peer, "lladdr", &peer_mac, "nud", "permanent", "dev", interface])
}
