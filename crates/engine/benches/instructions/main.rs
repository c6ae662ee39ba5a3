//! Instructions per burst of a bridge's MAC table, of a worker's round along a patch, through a bridge, between ports
//! that aggregate and with a shared queue, and of its rounds between a NIC and a function each way, mapped and copied, on a virtio NIC and
//! on AF_XDP, counted by valgrind: exact, independent of the machine's load.
//!
//! `cargo xtask verify --only instructions` runs this and compares with `bench/baseline/instructions.json`.
#![allow(missing_docs)] // The macros' own items.

mod af_xdp;
mod chain;
mod conversations;
mod function;
mod nic;

use conversations::Conversations;
use engine::forward::mac_table::{Key, MacTable};
use engine::port::generator::Generator;
use engine::port::sink::Sink;
use engine::spec::Pace;
use engine::worker::{ByHand, InPlace, Role};
use gungraun::{library_benchmark, library_benchmark_group, main};
use nic::Way;
use packet::MAX_BURST;
use std::hint::black_box;

const BURST: u64 = 32;
const LIMIT: u32 = 1024;
const NOW: u32 = 7;

/// A table, and the keys of source and destination for each frame of a burst from port 0.
pub struct Rig {
    table: MacTable,
    frames: Vec<[Key; 2]>,
}

/// Returns a rig whose stations are all known, or whose port 0 is at its limit and the burst is between unknown stations.
fn rig(known: bool) -> Rig {
    let key = |n: u64| Key::new(n << 8 | 2, 0);
    let table = MacTable::with_known_key(2, LIMIT, 300);
    for n in 0..u64::from(LIMIT) {
        table.learn(key(n), 0, NOW);
        table.learn(key(10_000 + n), 1, NOW);
    }
    let first = if known { 100 } else { 1_000_000 };
    let frames = (0..BURST).map(|n| [key(first + n), key(first + 10_000 + n)]).collect();
    Rig { table, frames }
}

#[library_benchmark(setup = rig)]
#[bench::known(true)]
#[bench::over_limit(false)]
fn learn_and_look_up(rig: Rig) {
    for [source, destination] in &rig.frames {
        rig.table.learn(black_box(*source), 0, NOW);
        black_box(rig.table.find(black_box(*destination), NOW));
    }
    std::mem::forget(rig);
}

/// Returns a worker between queues that cost almost nothing, after the one round in many that is timed.
fn patch() -> ByHand {
    let frames = Generator::new(64, Pace::default(), 0, None);
    after_a_round(ByHand::new(Box::new(frames), Box::new(Sink), InPlace::Never))
}

/// The same through a bridge, after it has learned the stations: a burst is of this many pairs of them.
fn bridge(pairs: u8) -> ByHand {
    let conversations = Conversations::new(pairs);
    let there = conversations.destinations();
    after_a_round(ByHand::through_bridge(Box::new(conversations), Box::new(Sink), &there, InPlace::Never))
}

/// The same between ports that aggregate: packets of one service chain, of which no two fit into a frame.
fn aggregate() -> ByHand {
    let packets = chain::Packets::default();
    after_a_round(ByHand::aggregating(Box::new(packets), Box::new(Sink), &chain::rules()))
}

/// The same from a queue whose parent the worker is, and of which it has the only lane: a batch is received, one is processed, and
/// one is sent.
fn shared() -> ByHand {
    let frames = Generator::new(64, Pace::default(), 0, None);
    let mut workers = ByHand::static_role(Box::new(frames), Box::new(Sink), 1, Role::WorkingParent);
    let mut worker = after_a_round(workers.remove(0));
    (0..8).for_each(|_| assert!(worker.round()));
    worker
}

fn after_a_round(mut worker: ByHand) -> ByHand {
    assert!(worker.round());
    worker
}

#[library_benchmark]
#[bench::patch(args = (), setup = patch)]
#[bench::bridge(args = (MAX_BURST as u8), setup = bridge)]
#[bench::bridge_one_pair(args = (1), setup = bridge)]
#[bench::aggregate(args = (), setup = aggregate)]
#[bench::shared(args = (), setup = shared)]
fn round(mut worker: ByHand) {
    black_box(worker.round());
    std::mem::forget(worker);
}

#[library_benchmark(setup = nic::about_to_receive)]
#[bench::split(false, Way::Mapped)]
#[bench::packed(true, Way::Mapped)]
#[bench::bridge_split(false, Way::MappedInBridge)]
#[bench::bridge_packed(true, Way::MappedInBridge)]
fn mapped_receive(mut rig: nic::Rig) {
    black_box(rig.receive());
    std::mem::forget(rig);
}

#[library_benchmark(setup = nic::about_to_transmit)]
#[bench::split(false, Way::Mapped)]
#[bench::packed(true, Way::Mapped)]
#[bench::bridge_split(false, Way::MappedInBridge)]
#[bench::bridge_packed(true, Way::MappedInBridge)]
fn mapped_transmit(mut rig: nic::Rig) {
    black_box(rig.transmit());
    std::mem::forget(rig);
}

#[library_benchmark(setup = nic::about_to_receive)]
#[bench::split(false, Way::Copied)]
#[bench::packed(true, Way::Copied)]
#[bench::bridge_split(false, Way::CopiedInBridge)]
#[bench::bridge_packed(true, Way::CopiedInBridge)]
fn copied_receive(mut rig: nic::Rig) {
    black_box(rig.receive());
    std::mem::forget(rig);
}

#[library_benchmark(setup = nic::about_to_transmit)]
#[bench::split(false, Way::Copied)]
#[bench::packed(true, Way::Copied)]
#[bench::bridge_split(false, Way::CopiedInBridge)]
#[bench::bridge_packed(true, Way::CopiedInBridge)]
fn copied_transmit(mut rig: nic::Rig) {
    black_box(rig.transmit());
    std::mem::forget(rig);
}

#[library_benchmark(setup = af_xdp::about_to_receive)]
#[bench::split(false, true)]
#[bench::packed(true, true)]
#[bench::copied_split(false, false)]
#[bench::copied_packed(true, false)]
fn af_xdp_receive(mut rig: af_xdp::Rig) {
    black_box(rig.receive());
    std::mem::forget(rig);
}

#[library_benchmark(setup = af_xdp::about_to_transmit)]
#[bench::split(false, true)]
#[bench::packed(true, true)]
#[bench::copied_split(false, false)]
#[bench::copied_packed(true, false)]
fn af_xdp_transmit(mut rig: af_xdp::Rig) {
    black_box(rig.transmit());
    std::mem::forget(rig);
}

library_benchmark_group!(name = mac_table, benchmarks = [learn_and_look_up]);
library_benchmark_group!(name = worker, benchmarks = [round]);
library_benchmark_group!(
    name = between_nic_and_function,
    benchmarks = [mapped_receive, mapped_transmit, copied_receive, copied_transmit, af_xdp_receive, af_xdp_transmit]
);
main!(library_benchmark_groups = [mac_table, worker, between_nic_and_function]);
