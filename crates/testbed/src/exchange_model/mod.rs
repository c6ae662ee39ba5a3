//! A model of the exchange of pages against copying, from costs that are measured on this machine (docs/zcopy.md).
//!
//! The kernel module itself is not measured: that needs a machine whose hypervisor is under our control.

mod costs;
mod memory;
mod model;
mod show;

use crate::machine::Machine;
use crate::record::{Record, RecordError, free_directory};
use clap::Args;
use costs::{CostError, Costs, Pages};
use model::{Figure, Terms};
use std::path::PathBuf;

/// How to model exchanges.
#[derive(Debug, Args)]
pub struct ExchangeModel {
    #[command(flatten)]
    assumed: Pages,
    /// Cycles of each further processor of a shootdown
    #[arg(long, default_value_t = 300.0)]
    further: f64,
    /// Processors that run each guest
    #[arg(long, default_value_t = 1)]
    processors: u32,
    /// Cycles of the module's own work on a pair: slots, counts, flags
    #[arg(long, default_value_t = 60.0)]
    pair: f64,
    /// Processor of the measuring thread
    #[arg(long, default_value_t = 0)]
    cpu: usize,
    /// Processor of a second thread, which shootdowns interrupt
    #[arg(long, default_value_t = 1)]
    other_cpu: usize,
    /// New directory for the results; by default below bench/results
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Error of a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error(transparent)]
    Costs(#[from] CostError),
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Measures costs, and writes the figures that follow from them.
pub fn run(options: &ExchangeModel) -> Result<(), ModelError> {
    let machine = Machine::detect(&std::env::current_exe().unwrap_or_default());
    let costs = Costs::measure(options.cpu, options.other_cpu)?;
    let further = options.further * f64::from(options.processors.saturating_sub(1));
    let assumed = Pages { shootdown: options.assumed.shootdown + further, ..options.assumed };
    let terms = Terms { assumed, pair: options.pair };
    let figures: Vec<Figure> = model::figures(&costs, &terms);
    let notes = [
        "a model: the module was not measured".to_owned(),
        format!("cycles that were measured here: {costs}"),
        format!(
            "cycles that were assumed, of a machine without hypervisor: {}, the module's work on a pair {}",
            assumed, terms.pair
        ),
    ];
    let table = show::table(&notes, &figures);
    print!("{table}");
    let record = Record::new(&machine, &notes, figures);
    let [warm, cold] = [0, 1].map(|copy| show::chart(&record, copy));
    let out = options.out.clone().unwrap_or_else(|| free_directory(&machine, "exchange-model"));
    record.write(&out, &[("table.txt", &table), ("chart.svg", &cold), ("warm.svg", &warm)])?;
    println!("\n{}", out.display());
    Ok(())
}
