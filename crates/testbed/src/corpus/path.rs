//! The paths, and the switches that they lead through.

use super::controller;
use super::error::CorpusError;
use super::files::Corpus;
use super::headers::{addresses, vid};
use super::model::PathModel;
use super::rig::{ENDS, Rig, Workspace};
use clap::ValueEnum;
use lab::Error;
use lab::millrace::config::{
    FailMode, RawAggregation, RawBridge, RawOpenflow, RawPort, RawTunnelEnd, RawVxlan, aggregation, bridge, by_flows,
    flow, listen, next_hop, patch, sleeper, vhost_user, virtio_user,
};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// A path through one switch or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// A patch between two ports
    Patch,
    /// A learning bridge: each frame is sent by the guest that its destination is not behind
    Bridge,
    /// A bridge with `openflow`: flows for all kinds of headers lead frames from the one port to the other
    Flows,
    /// A VXLAN tunnel from one switch over a second one to a third
    Vxlan,
    /// Frames are joined by one switch and split by another; untagged ones travel in a VLAN, as service chains are VLANs
    Aggregation,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("none is skipped");
        f.pad(value.get_name())
    }
}

/// Bytes of the headers around a frame in a tunnel over IPv4 that count for its MTU: IPv4, UDP, VXLAN (RFC 7348).
const VXLAN_HEADERS: u16 = 20 + 8 + 8;

/// The two MAC addresses between switches.
const MACS: [&str; 2] = ["02:00:00:00:01:01", "02:00:00:00:01:02"];

/// The number of the next hop.
const NFI: i64 = 1;

impl Path {
    /// Sets the path up for the frames of a corpus, with `mtu` between switches.
    pub fn set_up(self, workspace: &Workspace<'_>, corpus: &Corpus, mtu: u16) -> Result<(Rig, PathModel), CorpusError> {
        // A tag may be added.
        let longest = corpus.longest() + 4;
        let ends = ENDS.map(vhost_user);
        let (switches, model) = match self {
            Path::Patch => (vec![workspace.start("a", (ends, patch(ENDS[0], ENDS[1]), sleeper()))?], PathModel::wire()),
            Path::Bridge => (vec![workspace.start("a", (ends, learning(corpus), sleeper()))?], PathModel::bridge()),
            Path::Flows => {
                let channel = RawOpenflow { fail_mode: FailMode::Secure.into(), ..listen("unix:flows.sock") };
                let switch = workspace.start("a", (ends, by_flows(learning(corpus)), channel, sleeper()))?;
                controller::lead(&workspace.socket("flows"), 1, 2).map_err(Error::io("setting flows"))?;
                (vec![switch], PathModel::wire())
            }
            Path::Vxlan => {
                let [left, right] = ends;
                let cables = ["cable-a", "cable-b"];
                let between = (cables.map(vhost_user), patch(cables[0], cables[1]), sleeper());
                let wan = |here: usize| tunnel(here, mtu, virtio_user("wan", &workspace.socket(cables[here])));
                let switches = vec![
                    workspace.start("between", between)?,
                    workspace.start("a", (left, wan(0), patch(ENDS[0], "wan"), sleeper()))?,
                    workspace.start("b", (right, wan(1), patch(ENDS[1], "wan"), sleeper()))?,
                ];
                (switches, PathModel::up_to(usize::from(mtu - VXLAN_HEADERS)))
            }
            Path::Aggregation => {
                let [left, right] = ends;
                let addresses = free_addresses(corpus).ok_or(CorpusError::NothingFree)?;
                let vlans: BTreeSet<u16> = corpus.frames.iter().filter_map(|frame| vid(&frame.bytes)).collect();
                let free = (1..=4094).find(|vlan| !vlans.contains(vlan)).ok_or(CorpusError::NothingFree)?;
                let chains: Vec<u16> = vlans.into_iter().filter(|&vlan| vlan < 4095).chain([free]).collect();
                let joining = |here: usize| joining(&addresses, here, mtu, &chains);
                let joins = |port| RawPort { aggregate: true.into(), ..port };
                let (device, driver) = (joins(vhost_user("wan")), joins(virtio_user("wan", &workspace.socket("wan"))));
                let switches = vec![
                    workspace.start("a", (left, device, patch(ENDS[0], "wan"), joining(0), sleeper()))?,
                    workspace.start("b", (right, driver, patch(ENDS[1], "wan"), joining(1), sleeper()))?,
                ];
                (switches, PathModel::tagged(free))
            }
        };
        Ok((workspace.connect(switches, longest)?, model))
    }
}

/// Returns a bridge between the guests that learns all sources, as far as it can, and forgets none. Its table has room for no more: it
/// learns nothing while it sweeps it.
fn learning(corpus: &Corpus) -> RawBridge {
    let sources = corpus.frames.iter().filter_map(|frame| addresses(&frame.bytes)).map(|[_, source]| source);
    let limit = sources.collect::<BTreeSet<_>>().len().min(65_536) as i64;
    RawBridge { ageing: 1_000_000.into(), learned_limit: limit.into(), ..bridge("bridge", ENDS) }
}

/// Makes a tunnel end at a port: this one of its two ends.
fn tunnel(here: usize, mtu: u16, port: RawPort) -> RawPort {
    let end = |end: usize| RawTunnelEnd { mac: MACS[end].into(), ip: format!("192.0.2.{}", end + 1).into() }.into();
    let (local, remote) = (end(here), end(1 - here));
    let vxlan = RawVxlan { vni: 1.into(), mtu: i64::from(mtu).into(), local, remote, ..RawVxlan::default() };
    RawPort { vxlan: vxlan.into(), ..port }
}

/// Returns the rules of the switch with this one of two addresses: packets of these chains go to the other one.
fn joining(addresses: &[String; 2], here: usize, mtu: u16, chains: &[u16]) -> RawAggregation {
    let there = 1 - here;
    RawAggregation {
        mtu: i64::from(mtu).into(),
        next_hops: vec![next_hop(NFI, MACS[there], &addresses[there]).into()],
        flows: chains.iter().map(|&chain| flow(chain.into(), NFI).into()).collect(),
        ..aggregation(MACS[here], &addresses[here])
    }
}

/// Returns two addresses that are nowhere in the frames, so that no frame is for a switch itself.
fn free_addresses(corpus: &Corpus) -> Option<[String; 2]> {
    const NETWORK: [u8; 3] = [198, 51, 100];
    let mut used = [false; 256];
    for frame in &corpus.frames {
        let found = frame.bytes.windows(4).filter(|bytes| bytes[..3] == NETWORK);
        found.for_each(|bytes| used[usize::from(bytes[3])] = true);
    }
    let mut free = (1..255).filter(|&host| !used[host]).map(|host| format!("198.51.100.{host}"));
    Some([free.next()?, free.next()?])
}
