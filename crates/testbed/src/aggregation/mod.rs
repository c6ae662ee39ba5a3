//! Measurements of packet aggregation, after the evaluation in Taguchi et al., "Fast Datapath Processing Based on Hop-by-Hop
//! Packet Aggregation for Service Function Chaining": two nodes, the link between them, and a network function.

mod break_even;
mod drops;
mod error;
mod latency;
mod mapping;
mod ratio;
mod rig;
mod single_node;
mod throughput;

use clap::Subcommand;

pub use error::AggregationError;

/// A measurement.
#[derive(Clone, Debug, Subcommand)]
pub enum Aggregation {
    /// How much gets through by packet size, with packets joined nowhere, in the switch, or in the network function
    Throughput(throughput::Throughput),
    /// How many frames packets leave in, by rate, for packets that come one by one and for trains
    Ratio(ratio::Ratio),
    /// How long packets take, with packets joined nowhere, in the switch, or in the network function
    Latency(latency::Latency),
    /// How many packets are lost by rate, and how many of them in a row
    Drops(drops::Drops),
    /// How much gets through with the second node's port mapped to the network function, and without, for mixes of sizes
    Mapping(mapping::Mapping),
    /// Draw from which cost of a hop on joining packets pays
    BreakEven(break_even::BreakEven),
}

/// Runs a measurement.
pub fn run(aggregation: &Aggregation) -> Result<(), AggregationError> {
    match aggregation {
        Aggregation::Throughput(throughput) => throughput::run(throughput),
        Aggregation::Ratio(ratio) => ratio::run(ratio),
        Aggregation::Latency(latency) => latency::run(latency),
        Aggregation::Drops(drops) => drops::run(drops),
        Aggregation::Mapping(options) => mapping::run(options),
        Aggregation::BreakEven(options) => break_even::run(options),
    }
}
