//! Analyses of receive queue mapping, after the evaluation in Kawashima, "Software Physical/Virtual Rx Queue Mapping Toward
//! High-Performance Containerized Networking", IEEE TNSM 18 (2021): the cost of copies (tables II and III, figures 9, 11 and
//! 12), each part on a processor of its own (table IV), the effect of ring sizes, and a model of the caches (tables IV to VI).
//! The same parts between two functions that exchange buffers. And ways to share a receive queue among threads, after the slides of
//! static role assignment.

mod bench;
mod cache;
mod error;
mod exchange;
mod files;
mod findings;
mod found;
mod heat;
mod measure;
mod parts;
mod pattern;
mod patterns;
mod rig;
mod rings;
mod setup;
mod sharing;
mod switch;
mod turns;

use clap::Subcommand;

pub use error::AnalyseError;

/// An analysis.
#[derive(Clone, Debug, Subcommand)]
pub enum Analyse {
    /// The cost of each copy: the data path with its copies, without them, and as if there were none
    Patterns(patterns::Patterns),
    /// The time of each part of the data path on a processor of its own, and the cache lines that move between them
    Parts(parts::Parts),
    /// The time of each part of the way between two functions on a processor of its own: with copies, and with buffers exchanged
    Exchange(exchange::ExchangeParts),
    /// The effect of the sizes of the rings before and behind the switch
    Rings(rings::Rings),
    /// A model of the caches, for each part of the data path
    Cache(cache::Cache),
    /// Ways to share one receive queue among threads: the cost and gain of each, and a model of more threads
    ///
    /// After Asada et al., "Roadblocks of I/O Parallelization: Removing H/W Contentions by Static Role Assignment in VNFs".
    /// The threads are those of a network function, whose port has its device in this program. Needs two processors that
    /// nothing else uses. docs/measured/sharing.md has the published results.
    Sharing(sharing::CompareSharing),
    /// Be the switch that the others measure: Millrace's data path with copies that no configuration can leave out
    Switch(switch::AnalysisSwitch),
}

/// Runs an analysis.
pub fn run(analyse: &Analyse) -> Result<(), AnalyseError> {
    match analyse {
        Analyse::Patterns(patterns) => patterns::run(patterns),
        Analyse::Parts(parts) => Ok(parts::run(parts)?),
        Analyse::Exchange(exchange) => Ok(exchange::run(exchange)?),
        Analyse::Rings(rings) => rings::run(rings),
        Analyse::Cache(cache) => Ok(cache::run(cache)?),
        Analyse::Sharing(sharing) => Ok(sharing::run(sharing)?),
        Analyse::Switch(switch) => Ok(switch::run(switch)?),
    }
}
