//! One node with traffic whose every packet is known. Source, network function and sink are a single thread, which polls on its
//! own processor, as the node's worker does: nothing waits for a scheduler, and all times are on one clock.
//!
//! ```text
//!   source ──── NIC ════ in ── left ════► network function, written with the library `nf`
//!   sink ◄───── NIC ════ wan ◄─ right ◄══ in the same thread
//!      or: ◄── cable ═══ wan
//! ```
//!
//! The node drives the NICs over shared rings. Packets may leave it through a kernel cable instead, which costs much more per
//! frame; they never arrive through one, so that the source is not the limit.

mod measure;
mod results;
mod sample;

pub use measure::{Measuring, finish, measure, millions};
pub use results::{Case, Results, Row};
pub use sample::Sample;

#[cfg(test)]
pub use results::tests;

use super::error::SingleNodeError;
use super::rig::{
    Between, Interval, Link, Node, NodeConfig, NodeNumbers, Placement, Rig, RigError, Scheduling, aggregating, driver,
    guest,
};
use crate::millrace::Idle;
use engine::stats::Snapshot;
use lab::dpdk::Lcores;
use loadgen::cpu;
use loadgen::traffic::{Exit, Function, OfferedLoad, Traffic};
use loadgen::wire::Nic;
use netdev::{PacketRx, RxConfig};
use nf::{Aggregation, Options, PortOptions, Ports};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Processors of the node and of the traffic.
pub const NODE_CPU: usize = 0;
pub const TRAFFIC_CPU: usize = 1;

/// Size of all queues.
const QUEUE: u16 = 256;
/// Time limit for the network function to connect.
const LIMIT: Duration = Duration::from_secs(15);
/// Seconds of traffic before each measurement.
const WARMUP: f64 = 0.1;

/// The node and the network function; and the source and the sink.
const NODE: NodeNumbers = NodeNumbers { own: 1, next: 2 };
const ENDS: NodeNumbers = NodeNumbers { own: 2, next: 1 };

/// Configuration of a node with traffic.
#[derive(Clone, Copy, Debug)]
pub struct SingleNodeConfig {
    /// Place where packets are split and joined.
    pub placement: Placement,
    /// Path by which they leave the node.
    pub exit: Between,
    /// Whether the network function passes them on without reading them.
    pub unseen: bool,
}

/// A running node, with traffic.
pub struct SingleNode {
    // Drivers of NICs end before the NICs.
    node: Node,
    traffic: Traffic,
    _link: Option<Link>,
}

/// Starts a node, and runs `work` with it on the traffic's processor.
pub fn pass<T: Send>(
    rig: &Rig,
    config: SingleNodeConfig,
    load: OfferedLoad,
    work: impl FnOnce(&mut SingleNode) -> Result<T, SingleNodeError> + Send,
) -> Result<T, SingleNodeError> {
    // A separate thread, since a pinned thread stays on its processor.
    let all = || work(&mut SingleNode::start(rig, config, load)?);
    std::thread::scope(|scope| scope.spawn(all).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl SingleNode {
    fn start(rig: &Rig, config: SingleNodeConfig, load: OfferedLoad) -> Result<SingleNode, SingleNodeError> {
        let in_switch = config.placement.in_switch();
        let entry = rig.file("entry.sock");
        let nic = |name: &str, socket: &std::path::Path| driver(name, socket, QUEUE);
        let (wan, exit, link) = match config.exit {
            Between::Rings => {
                let socket = rig.file("exit.sock");
                (nic("wan", &socket), Exit::Nic(Nic::serve(&socket, 1)?), None)
            }
            Between::AfPacket | Between::AfXdp => {
                let link =
                    Link::make(rig, config.exit, "wan", Lcores { forwarding: TRAFFIC_CPU, others: Some(NODE_CPU) })?;
                let open = || PacketRx::open(&netdev::Link::named("up1")?, 1, &RxConfig::default());
                let inside = link.namespace(1).map(|namespace| namespace.within(open));
                let ring = inside.transpose().map_err(RigError::from)?.transpose()?.and_then(|mut rings| rings.pop());
                let ring = ring.ok_or(SingleNodeError::Exit(config.exit))?;
                (link.port(0), Exit::Kernel(ring), Some(link))
            }
            Between::Virtio | Between::Ovs | Between::Testpmd => return Err(SingleNodeError::Exit(config.exit)),
        };
        let source = Nic::serve(&entry, 1)?;
        let node = NodeConfig {
            name: "node",
            ports: vec![
                aggregating(nic("in", &entry), in_switch),
                guest("left", rig),
                guest("right", rig),
                aggregating(wan, in_switch),
            ],
            patches: vec![["in", "left"], ["right", "wan"]],
            mappings: Vec::new(),
            scheduling: Scheduling { cpu: NODE_CPU, idle: Idle::Poll, priority: None },
            rules: in_switch.then_some(NODE),
        };
        let mut node = Node::start(rig, node, link.as_ref().and_then(|link| link.namespace(0)))?;
        let function = Function { ports: function(rig, config.placement)?, swaps: !config.unseen };
        node.wait_up(|| Ok(()))?;
        // Pin only now: threads of the links must not share the processor with the traffic.
        cpu::pin(TRAFFIC_CPU)?;
        let traffic = Traffic::new(source, exit, function, &load, ENDS.load(&rig.file("ends.toml"))?);
        Ok(SingleNode { node, traffic, _link: link })
    }

    /// Sends packets for `seconds`, after a warm-up, and returns the results.
    pub fn measure(&mut self, load: &OfferedLoad, seconds: f64, rig: &Rig) -> Result<Sample, SingleNodeError> {
        rig.interrupt().check().map_err(RigError::from)?;
        self.traffic.run(load, WARMUP)?;
        let before: Snapshot = self.node.look()?;
        let passed = self.traffic.run(load, seconds)?;
        let after = self.node.look()?;
        if passed.arrivals.losses.received() == 0 {
            return Err(SingleNodeError::Nothing);
        }
        Ok(Sample::new(load, passed, Interval { before: &before, after: &after }, self.traffic.hz()))
    }
}

/// Opens a network function that passes packets on from `left` to `right`.
fn function(rig: &Rig, placement: Placement) -> Result<Ports, SingleNodeError> {
    let aggregation = match placement {
        Placement::None | Placement::Vhost => None,
        Placement::Nf => Some(nf::Splitter::Nf),
        Placement::Native => Some(nf::Splitter::Native),
        Placement::Ethdev => return Err(SingleNodeError::Ethdev),
    };
    let rules = Arc::new(NODE.load(&rig.file("function.toml"))?);
    let aggregation = aggregation.map(|splitter| Aggregation { rules, splitter });
    let port = |name: &str| PortOptions {
        queue_size: QUEUE,
        aggregation: aggregation.clone(),
        ..PortOptions::new(rig.file(name))
    };
    let ports = ["left.sock", "right.sock"].map(port).into();
    Ok(Ports::open(Options { timeout: Some(LIMIT), ..Options::new(ports) }, &AtomicBool::new(false))?)
}
