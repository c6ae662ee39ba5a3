//! A sending node, a receiving node, the link between them, and a network function behind the second node.
//!
//! ```text
//!   node a                          node b          function
//!   near ── wan ══════ link ══════ wan ── left ────► ┐
//!                                  out ◄── right ◄── ┘ nf-forward, testpmd
//! ```

use super::function::{Function, Placement, Processed, Program};
use super::link::{Between, Link};
use super::node::{Node, NodeConfig, NodeNumbers, aggregating, guest};
use super::scheduling::Cpus;
use super::{Rig, RigError};
use lab::dpdk::Lcores;
use lab::millrace::config::RawPort;

/// Numbers of the two nodes; the next hop after them has the next number. If the network function joins and splits, the second
/// node's address is the function's.
const A: u8 = 1;
const B: u8 = 2;

/// Configuration of the two nodes.
#[derive(Clone, Debug)]
pub struct TwoNodesConfig {
    /// Link between the nodes.
    pub between: Between,
    /// The network function.
    pub function: Program,
    /// Place where packets are split and joined. The first node joins them unless this is nowhere.
    pub placement: Placement,
    /// Whether the second node's port to the link is mapped to the function.
    pub mapped: bool,
    /// Source of packets: a port `near` of the first node.
    pub near: RawPort,
    /// Destination of packets behind the function: a port `out` of the second node.
    pub out: RawPort,
    /// Processors.
    pub cpus: Cpus,
}

impl TwoNodesConfig {
    /// Returns the two nodes, with these ports to the link.
    fn nodes(&self, [wan_a, wan_b]: [RawPort; 2], rig: &Rig) -> [NodeConfig; 2] {
        let placement = self.placement;
        let joins = placement != Placement::None;
        let ports = vec![self.near.clone(), aggregating(wan_a, joins)];
        let a = NodeConfig {
            name: "a",
            ports,
            patches: vec![["near", "wan"]],
            mappings: Vec::new(),
            scheduling: self.cpus.a,
            rules: joins.then_some(NodeNumbers { own: A, next: B }),
        };
        let splits = placement.in_switch();
        let ports = vec![
            aggregating(wan_b, splits),
            guest("left", rig),
            guest("right", rig),
            aggregating(self.out.clone(), splits),
        ];
        let (mut patches, mut mappings) = (vec![["right", "out"]], Vec::new());
        let wire = if self.mapped { &mut mappings } else { &mut patches };
        wire.push(["wan", "left"]);
        let b = NodeConfig {
            name: "b",
            ports,
            patches,
            mappings,
            scheduling: self.cpus.b,
            rules: splits.then_some(NodeNumbers { own: B, next: B + 1 }),
        };
        [a, b]
    }
}

/// Two running nodes, with the link and the function.
pub struct TwoNodes {
    // The sender ends first.
    a: Node,
    function: Option<Function>,
    b: Node,
    link: Link,
    config: TwoNodesConfig,
}

impl TwoNodes {
    /// Starts them, and waits until all ports are up.
    pub fn start(rig: &Rig, config: TwoNodesConfig) -> Result<TwoNodes, RigError> {
        // On a processor with nodes of higher priority, it would never read a command.
        let lcores = Lcores { forwarding: config.cpus.link, others: Some(config.cpus.link) };
        let link = Link::make(rig, config.between, "wan", lcores)?;
        let [a, b] = config.nodes([link.port(0), link.port(1)], rig);
        let mut b = Node::start(rig, b, link.namespace(1))?;
        let mut function = start(rig, &config)?;
        let mut a = Node::start(rig, a, link.namespace(0))?;
        a.wait_up(|| function.daemon().check("the first node's ports"))?;
        b.wait_up(|| function.daemon().check("the second node's ports"))?;
        Ok(TwoNodes { a, function: Some(function), b, link, config })
    }

    /// Returns the sending node.
    pub fn a(&mut self) -> &mut Node {
        &mut self.a
    }

    /// Returns the receiving node.
    pub fn b(&mut self) -> &mut Node {
        &mut self.b
    }

    /// Returns the link between them.
    pub fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    /// Returns the network function, unless it was stopped.
    pub fn function(&mut self) -> Option<&mut Function> {
        self.function.as_mut()
    }

    /// Stops the function, and returns its counters.
    pub fn stop_function(&mut self) -> Result<Processed, RigError> {
        self.function.take().map_or(Ok(Processed::default()), Function::stop)
    }

    /// Starts the function again, and waits until it is connected.
    pub fn start_function(&mut self, rig: &Rig) -> Result<(), RigError> {
        let mut function = start(rig, &self.config)?;
        self.b.wait_up(|| function.daemon().check("the second node's ports"))?;
        self.function = Some(function);
        Ok(())
    }
}

fn start(rig: &Rig, config: &TwoNodesConfig) -> Result<Function, RigError> {
    Function::start(rig, config.function, config.placement, NodeNumbers { own: B, next: B + 1 }, config.cpus.function)
}
