//! From what a file says to what the engine is told.

use crate::config::{Config, Driver, FailMode, Idle, Mapping, Mode, Port, Vlan};
use engine::spec;

/// The switch that `config` describes.
pub fn spec(config: &Config) -> spec::Spec {
    let bridges = config.bridges.iter().map(|b| spec::BridgeSpec {
        name: b.name.clone(),
        ports: b.ports.clone(),
        ageing: b.ageing,
        learned_limit: b.learned_limit,
        statics: b.statics.iter().map(|s| (s.mac.0, s.vlan, s.port.clone())).collect(),
        flows: config.openflow.as_ref().filter(|_| b.openflow).map(|openflow| match openflow.fail_mode {
            FailMode::Standalone => spec::FailMode::Standalone,
            FailMode::Secure => spec::FailMode::Secure,
        }),
    });
    let workers = config.workers.iter().map(|w| spec::WorkerSpec {
        cpu: w.cpu,
        idle: match w.idle {
            Idle::Poll => spec::Idle::Poll,
            Idle::Backoff => spec::Idle::Backoff,
            Idle::Sleep => spec::Idle::Sleep,
        },
        patience: w.patience,
        queues: w.queues.iter().map(|q| (q.port.clone(), Some(q.queue.into()))).collect(),
    });
    spec::Spec {
        ports: config.ports.iter().map(port).collect(),
        patches: config.patches.iter().map(|p| p.ports.clone()).collect(),
        bridges: bridges.collect(),
        mappings: config.mappings.iter().map(mapping).collect(),
        aggregation: aggregation(config),
        workers: workers.collect(),
    }
}

fn aggregation(config: &Config) -> Option<spec::AggregationSpec> {
    let aggregation = config.aggregation.as_ref()?;
    let relay = config.openflow.as_ref().filter(|openflow| openflow.relay).map(|_| aggregation.mac.0);
    Some(spec::AggregationSpec { relay, ..aggregation.spec() })
}

fn mapping(mapping: &Mapping) -> spec::MappingSpec {
    let Mapping { from, to, pass_through, tenancy, copy_break } = mapping.clone();
    spec::MappingSpec { from, to, pass_through, tenancy, copy_break }
}

fn port(port: &Port) -> spec::PortSpec {
    spec::PortSpec {
        name: port.name.clone(),
        driver: driver(&port.driver),
        vlan: match &port.vlan {
            Vlan::Unaware => spec::Vlan::Ignore,
            Vlan::Access(vid) => spec::Vlan::Access(*vid),
            Vlan::Trunk(vids) => spec::Vlan::Trunk(vids.clone()),
            Vlan::TrunkAll => spec::Vlan::Trunk(Vec::new()),
        },
        record: port.record_to.clone(),
        fault: port.fault.as_ref().map(|f| spec::Faults {
            drop: f.drop,
            corrupt: f.corrupt,
            delay: f.delay,
            seed: f.seed,
        }),
        aggregate: port.aggregate,
        vxlan: port.vxlan.clone(),
        analysis: spec::Analysis::default(),
    }
}

fn driver(driver: &Driver) -> spec::Driver {
    let mode = |mode: &Mode| match mode {
        Mode::Server => spec::Mode::Server,
        _ => spec::Mode::Client,
    };
    match driver {
        Driver::VhostUser { socket, mode: m, access, queues, any_memory } => spec::Driver::VhostUser {
            socket: socket.clone(),
            mode: mode(m),
            access: *access,
            queues: *queues,
            any_memory: *any_memory,
        },
        Driver::VirtioUser { socket, mode: m, queues, queue_size, packed } => spec::Driver::VirtioUser {
            socket: socket.clone(),
            mode: mode(m),
            queues: *queues,
            queue_sizes: (*queue_size).into(),
            packed: *packed,
        },
        Driver::Tap { interface, mtu, queues } => {
            spec::Driver::Tap { interface: interface.clone(), mtu: Some((*mtu).into()), queues: *queues }
        }
        Driver::AfPacket { interface } => spec::Driver::AfPacket { interface: interface.clone(), queues: 1 },
        Driver::AfXdp { interface, queues, mode, queue_size } => spec::Driver::AfXdp {
            interface: interface.clone(),
            queues: *queues,
            mode: match mode {
                Mode::ZeroCopy => spec::XdpMode::ZeroCopy,
                Mode::Copy => spec::XdpMode::Copy,
                _ => spec::XdpMode::Auto,
            },
            queue_size: *queue_size,
        },
        Driver::Pcap { replay, record, repeat, pace } => spec::Driver::Pcap {
            replay: replay.clone(),
            record: record.clone(),
            repeat: *repeat,
            pace: spec::Pace { rate: pace.rate.unwrap_or(0), burst: pace.burst },
        },
        Driver::Generator { size, pace, frames, mac } => spec::Driver::Generator {
            size: (*size).into(),
            pace: spec::Pace { rate: pace.rate.unwrap_or(0), burst: pace.burst },
            frames: frames.unwrap_or(0),
            mac: Some(mac.0),
        },
        Driver::Sink => spec::Driver::Sink,
    }
}
