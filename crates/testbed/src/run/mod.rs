//! Runs of a scenario: every point with every switch in turn, stored line by line.

mod apps;
mod card;
mod far;
mod flow_changes;
mod host;
mod loss;
mod network;
mod options;
mod plan;
mod point;
mod processors;
mod progress;
mod record;
mod rfc2544;
mod search;
mod store;
mod trial;
mod used;

pub use flow_changes::{FlowChanges, run as run_flow_changes};
pub use host::serve as run_host;
pub use options::Run;
pub use record::{AppPlacement, CpuUse, RunRecord, SwitchUse};
pub use rfc2544::{Rfc2544, run as run_rfc2544};
pub use store::{RIG, RUNS, SCENARIO, StoreError, stored};

use crate::machine::Machine;
use crate::millrace::MillraceError;
use crate::record::RecordError;
use crate::scenario::{Scenario, ScenarioError};
use far::Far;
use lab::process::Interrupt;
use plan::Plan;
use point::{HostRole, Rig};
use progress::Progress;
use store::Store;

/// Error of a scenario's runs.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum RunError {
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Millrace(#[from] MillraceError),
    #[error(transparent)]
    Lab(#[from] lab::Error),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("{0}")]
    Plan(String),
    #[error("the requests on standard input: {0}")]
    Request(String),
    #[error("{failed} of {all} runs failed; the reasons are in {file}. The same command repeats those alone")]
    Failed { failed: usize, all: usize, file: String },
}

/// Makes all runs of a scenario that are not stored yet.
pub fn run(options: &Run) -> Result<(), RunError> {
    let (scenario, text) = Scenario::load(&options.scenario)?;
    let millrace = crate::millrace::program(options.millrace.as_deref())?;
    let mut plan = Plan::new(&scenario, &options.switches, &millrace).map_err(RunError::Plan)?;
    let interrupt = Interrupt::install()?;
    let mut machine = Machine::detect(&millrace);
    let role = match &scenario.other_machine {
        Some(other) => {
            let far = Far::connect(other, &text, &options.switches, &interrupt)?;
            plan.restrict(&far.points, &far.missing).map_err(RunError::Plan)?;
            machine.other = Some(Box::new(far.machine.clone()));
            HostRole::First(Box::new(far))
        }
        None => HostRole::Only,
    };
    plan.missing().iter().for_each(|missing| eprintln!("left out: {missing}"));
    if options.list {
        plan.turns().iter().for_each(|turn| println!("{}, round {}", turn.point, turn.round + 1));
        return Ok(());
    }
    let directory = options.directory();
    let mut store = Store::open(&directory, &text, &machine)?;
    let mut rig = Rig::new(&scenario, &plan, role, &interrupt)?;
    let mut progress = Progress::new(plan.turns(), &store);
    let mut failed = 0;
    for turn in plan.turns() {
        if store.find(&turn.point, turn.round).is_some() {
            continue;
        }
        progress.begin(turn);
        let record = rig.run(turn, &store)?;
        failed += usize::from(record.error.is_some());
        progress.done(&record);
        store.add(record)?;
    }
    progress.finish(&directory);
    match failed {
        0 => Ok(()),
        failed => {
            let file = directory.join(RUNS).display().to_string();
            Err(RunError::Failed { failed, all: plan.turns().len(), file })
        }
    }
}
