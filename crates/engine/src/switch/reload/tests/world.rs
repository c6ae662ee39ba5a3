//! Specifications with honest ports, which are the same in all of them, and others, which come, change and go.

use crate::port::{generator, pcap, sink, vhost_user, virtio_user};
use crate::spec::{
    Acceleration, AggregationSpec, BridgeSpec, Chains, Driver, ExchangeMode, ExchangeSpec, Faults, Idle, MappingSpec,
    MirrorDirection, MirrorPoint, MirrorSpec, Mode, NextHopSpec, Pace, PortQueues, PortSpec, Spec, StaticEntry,
    Tenancy, Vlan, WorkerSpec,
};
use ::vhost_user::frontend::QueueSizes;
use packet::MacAddr;
use paflow::Receiver;
use paflow::outer::{Addresses, Carrier, Checksum, Route, Tunnel};
use paflow::vxlan::{Endpoints, TunnelEnd};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Frames in each of the two honest streams.
pub(super) const FRAMES: u64 = 30_000;

/// Frames of the port that sends a few and is silent then.
pub(super) const EARLY: u64 = 10;

/// Ports in every specification. Frames from `source` go by a ring to `sink`, and from `talker` through the bridge to
/// `listener`.
pub(super) const HONEST: [&str; 7] = ["source", "driver", "device", "sink", "talker", "listener", "early"];

/// Time of a turn that no port overdraws in a build without optimizations: then it would lose frames of a chain.
const LONG_TURN: Duration = Duration::from_secs(1);

/// Maximum number of other ports.
const OTHERS: usize = 5;

/// A port other than the honest ones, as far as specifications differ in it.
#[derive(Clone, Debug)]
pub(super) struct Outsider {
    driver: u8,
    vlan: u8,
    record: u8,
    fault: bool,
    aggregate: bool,
    vxlan: bool,
    /// Destination of its frames: nowhere, its neighbour, or one of two bridges.
    place: u8,
}

/// Parts of a specification besides the honest ports.
#[derive(Clone, Debug, Default)]
pub(super) struct Outsiders {
    ports: Vec<Option<Outsider>>,
    /// Whether they come before the honest ones.
    first: bool,
    ageing: u8,
    aggregation: u8,
    mappings: u8,
    /// Mirror of the honest ports to one that has no other use.
    mirror: u8,
    exchange: u8,
    /// Idle policies of workers; the first polls the honest ports.
    workers: Vec<u8>,
}

pub(super) fn outsiders() -> impl Strategy<Value = Outsiders> {
    let port = (0..5u8, 0..3u8, 0..3u8, any::<(bool, bool, bool)>(), 0..4u8);
    let port = port.prop_map(|(driver, vlan, record, (fault, aggregate, vxlan), place)| Outsider {
        driver,
        vlan,
        record,
        fault,
        aggregate,
        vxlan: vxlan && !aggregate,
        place,
    });
    let ports = prop::collection::vec(prop::option::weighted(0.7, port), OTHERS);
    let workers = prop::collection::vec(0..4u8, 0..4);
    (ports, any::<bool>(), 0..2u8, 0..3u8, 0..6u8, 0..4u8, 0..3u8, workers).prop_map(
        |(ports, first, ageing, aggregation, mappings, mirror, exchange, workers)| Outsiders {
            ports,
            first,
            ageing,
            aggregation,
            mappings,
            mirror,
            exchange,
            workers,
        },
    )
}

pub(super) struct World {
    home: PathBuf,
}

impl World {
    pub(super) fn new(home: &Path) -> World {
        World { home: home.to_owned() }
    }

    fn socket(&self) -> PathBuf {
        self.home.join("honest.sock")
    }

    /// Returns the specification without ports that generate frames, which would be lost while the ring is down.
    pub(super) fn before(&self) -> Spec {
        let mut spec = self.spec(&Outsiders::default());
        let makes = |name: &str| ["source", "talker", "early"].contains(&name);
        spec.ports.retain(|port| !makes(&port.name));
        spec.patches.retain(|pair| !pair.iter().any(|name| makes(name)));
        spec.bridges.iter_mut().for_each(|bridge| bridge.ports.retain(|name| !makes(name)));
        spec
    }

    fn honest(&self) -> Vec<PortSpec> {
        let makes = |mac, rate, frames| {
            Driver::Generator(generator::Settings {
                size: 64,
                pace: Pace { rate, burst: 32 },
                frames,
                mac: Some(MacAddr(mac)),
            })
        };
        let queue_sizes = QueueSizes { receive: 256, transmit: 256 };
        let driver = Driver::VirtioUser(virtio_user::Settings {
            socket: self.socket(),
            mode: Mode::Client,
            queues: 1,
            queue_sizes,
            packed: false,
            offloads: None,
        });
        let device = Driver::VhostUser(vhost_user::Settings::at(self.socket()));
        // In the order in which they should come up.
        let drivers = [
            ("device", device),
            ("driver", driver),
            ("sink", Driver::Sink(sink::Settings)),
            ("listener", Driver::Sink(sink::Settings)),
            ("talker", makes([2, 0, 0, 0, 0, 0x10], 100_000, FRAMES)),
            ("source", makes([2, 0, 0, 0, 0, 0x11], 100_000, FRAMES)),
            ("early", makes([2, 0, 0, 0, 0, 0x12], 0, EARLY)),
        ];
        drivers.into_iter().map(|(name, driver)| PortSpec::new(name, driver)).collect()
    }

    fn outsider(&self, index: usize, of: &Outsider) -> PortSpec {
        let path = |end: &str| self.home.join(format!("{index}.{end}"));
        let queue_sizes = QueueSizes { receive: 64, transmit: 64 };
        let driver = match of.driver {
            0 => Driver::Sink(sink::Settings),
            1 => Driver::VhostUser(vhost_user::Settings {
                queues: (of.record == 1).then_some(2),
                ..vhost_user::Settings::at(path("sock"))
            }),
            2 => Driver::VirtioUser(virtio_user::Settings {
                socket: path("gone"),
                mode: Mode::Client,
                queues: 2 + u16::from(of.aggregate),
                queue_sizes,
                packed: of.fault,
                offloads: None,
            }),
            3 => Driver::Pcap(pcap::Settings {
                replay: None,
                record: Some(path("pcap")),
                repeat: false,
                pace: Pace::default(),
            }),
            _ => Driver::Generator(generator::Settings {
                size: 64,
                pace: Pace { rate: 1000, burst: 1 },
                frames: 0,
                mac: Some(MacAddr([2; 6])),
            }),
        };
        PortSpec {
            vlan: [Vlan::Ignore, Vlan::Access(5), Vlan::Trunk(vec![5, 6])][usize::from(of.vlan)].clone(),
            record: (of.record > 0).then(|| path(&format!("{}.pcap", of.record))),
            fault: of.fault.then(|| Faults { drop: 0.5, ..Faults::default() }),
            aggregate: of.aggregate,
            vxlan: of.vxlan.then(end),
            // The switch has guests of the group exchange by itself, where they reach each other.
            group: (of.record == 0).then(|| "owner".to_owned()),
            acceleration: if of.fault { Acceleration::Off } else { Acceleration::Auto },
            ..PortSpec::new(format!("p{index}"), driver)
        }
    }

    /// Returns a specification of the honest ports and these others.
    pub(super) fn spec(&self, outsiders: &Outsiders) -> Spec {
        let of = outsiders.ports.iter().enumerate().filter_map(|(index, of)| Some((index, of.as_ref()?)));
        let others: Vec<_> = of.map(|(index, of)| (self.outsider(index, of), of.place)).collect();
        let mut patches = vec![["source".into(), "driver".into()], ["device".into(), "sink".into()]];
        let mut bridge = vec!["early".to_owned(), "listener".into(), "talker".into()];
        let mut other = Vec::new();
        let mut waiting: Option<String> = None;
        for (port, place) in &others {
            let makes = matches!(port.driver, Driver::Generator(_));
            match place {
                1 => match waiting.take() {
                    Some(peer) => patches.push([peer, port.name.clone()]),
                    None => waiting = Some(port.name.clone()),
                },
                // Its frames would reach the listener.
                2 if !makes => bridge.push(port.name.clone()),
                2 | 3 => other.push(port.name.clone()),
                _ => {}
            }
        }
        if outsiders.first {
            bridge.rotate_right(1);
        }
        let find = |is: fn(&Driver) -> bool| {
            others.iter().filter(|(port, _)| is(&port.driver)).map(|(port, _)| port.name.clone()).collect::<Vec<_>>()
        };
        let physical = find(|driver| matches!(driver, Driver::VirtioUser(_)));
        let guests = find(|driver| matches!(driver, Driver::VhostUser(_)));
        let mappings = mappings(outsiders.mappings, &physical, &guests);
        let exchanges = exchange(outsiders.exchange, &guests);
        let is_mapped = |name: &String| mappings.iter().any(|m| m.from.port == *name || m.to.port == *name);
        let free = others.iter().find(|(port, place)| *place == 0 && !is_mapped(&port.name));
        let mirrors = free.and_then(|(to, _)| mirror(outsiders.mirror, &to.name)).into_iter().collect();
        let others = others.into_iter().map(|(port, _)| port);
        let ports = match outsiders.first {
            true => others.chain(self.honest()).collect(),
            false => self.honest().into_iter().chain(others).collect(),
        };
        let known = |name: &str| StaticEntry { mac: MacAddr([2, 0, 0, 0, 0, 2]), vlan: 0, port: name.to_owned() };
        let bridges = vec![
            BridgeSpec {
                name: "br".into(),
                ports: bridge,
                ageing: Duration::from_secs(3000),
                statics: vec![known("listener")],
                learned_limit: 100,
                forwards_reserved: false,
                flows: None,
            },
            BridgeSpec {
                name: "other".into(),
                ports: other,
                ageing: Duration::from_secs(300 + u64::from(outsiders.ageing)),
                statics: vec![],
                learned_limit: 100,
                forwards_reserved: false,
                flows: None,
            },
        ];
        let idle = |idle: &u8| WorkerSpec {
            idle: [Idle::Sleep, Idle::Backoff][usize::from(idle % 2)],
            patience: (idle / 2 > 0).then_some(Duration::from_micros(50)),
            turn: Some(LONG_TURN),
            ..WorkerSpec::default()
        };
        let mut workers: Vec<_> = outsiders.workers.iter().map(idle).collect();
        match workers.first_mut() {
            // One worker's rounds drain the ring as fast as they fill it, however slow the machine is.
            Some(first) => first.queues = HONEST.iter().map(|name| PortQueues::all(*name)).collect(),
            None => workers.push(WorkerSpec { turn: Some(LONG_TURN), ..WorkerSpec::default() }),
        }
        let aggregation = aggregation(outsiders.aggregation);
        let (acceleration, configuration) = (Acceleration::Auto, None);
        Spec {
            ports,
            patches,
            bridges,
            mappings,
            exchanges,
            mirrors,
            aggregation,
            workers,
            acceleration,
            configuration,
        }
    }
}

/// Returns some mappings of the first physical port to the guests, of whole ports or of queues, if there are both.
fn mappings(which: u8, physical: &[String], guests: &[String]) -> Vec<MappingSpec> {
    let (Some(wan), Some(first), Some(last)) = (physical.first(), guests.first(), guests.last()) else { return vec![] };
    let whole = |tenancy| {
        let (from, to) = (PortQueues::all(wan), PortQueues::all(first));
        vec![MappingSpec { from, to, pass_through: false, tenancy, copy_break: Some(64) }]
    };
    let one = |queue, to| {
        let (from, tenancy) = (PortQueues::one(wan, queue), Tenancy::Trust(vec![]));
        MappingSpec { from, to, pass_through: true, tenancy, copy_break: Some(64) }
    };
    match which {
        0 => vec![],
        1 => whole(Tenancy::TrustAll),
        2 => whole(Tenancy::Trust(vec![])),
        3 => vec![one(0, PortQueues::all(first))],
        // Of one guest, both queues; of two, the first queue of one and the second of the other.
        4 => vec![one(0, PortQueues::all(first)), one(1, PortQueues::one(last, 1))],
        _ => vec![one(1, PortQueues::one(first, 0)), one(0, PortQueues::one(last, 1))],
    }
}

/// Returns an exchange of the guests.
fn exchange(which: u8, guests: &[String]) -> Vec<ExchangeSpec> {
    let mode = match which {
        3 => ExchangeMode::Zcopy { device: "/dev/none".into() },
        _ => ExchangeMode::Group { buffers: 64, buffer_size: 512 },
    };
    let spec = ExchangeSpec { ports: guests.to_vec(), mode, threshold: Some(which.into()) };
    if which > 0 && !guests.is_empty() { vec![spec] } else { vec![] }
}

/// Returns one of some mirrors of the honest ports.
fn mirror(which: u8, to: &str) -> Option<MirrorSpec> {
    let (direction, at) = match which {
        0 => return None,
        1 => (MirrorDirection::Both, MirrorPoint::Wire),
        2 => (MirrorDirection::In, MirrorPoint::Forward),
        _ => (MirrorDirection::Out, MirrorPoint::Wire),
    };
    Some(MirrorSpec { from: HONEST.map(String::from).into(), to: to.to_owned(), direction, at })
}

fn aggregation(which: u8) -> Option<AggregationSpec> {
    let route = Route {
        source: [2; 6].into(),
        destination: [4; 6].into(),
        vlan: None,
        routed: false,
        carrier: Carrier::Udp(tunnel()),
    };
    (which > 0).then(|| AggregationSpec {
        mtu: 1500,
        chains: Chains::Vlan,
        receiver: Receiver::default(),
        mac: [2; 6].into(),
        addresses: vec![[192, 0, 2, 1].into()],
        drop_unknown: false,
        relay: None,
        next_hops: vec![NextHopSpec { nfi: 7, route, port: None }],
        flows: vec![(u32::from(which), 7)],
    })
}

fn addresses() -> Addresses {
    Addresses::V4 { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into() }
}

fn tunnel() -> Tunnel {
    let (addresses, checksum) = (addresses(), Checksum::Computed);
    Tunnel { addresses, source_port: 50_000, destination_port: 50_261, hop_limit: 64, checksum }
}

fn end() -> TunnelEnd {
    let (source, destination) = ([2, 0, 0, 0, 1, 1].into(), [2, 0, 0, 0, 1, 2].into());
    let (addresses, checksum) = (addresses(), Checksum::Computed);
    let endpoints = Endpoints { source, destination, addresses, port: 4789, vni: 100, hop_limit: 64, checksum };
    TunnelEnd::new(&endpoints, 2000).unwrap()
}
