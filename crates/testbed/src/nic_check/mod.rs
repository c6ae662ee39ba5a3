//! The check of a device of DPDK: what the port `dpdk` of the switch does with it.
//!
//! The switch itself has the device, mapped to a guest in this process. A second switch has the other end of its cable, with another
//! guest; the two send each other frames, and check every byte. Then guests leave under traffic, and rates are measured.

mod card;
mod check;
mod drains;
mod figures;
mod flow;
mod options;
mod place;
mod rates;
mod report;
mod rig;
mod table;

pub use options::NicCheck;

use crate::millrace::{self, MillraceError};
use lab::process::Interrupt;
use std::process::ExitCode;

/// Checks, and prints the report. Faults make it fail.
pub fn run(options: &NicCheck) -> Result<ExitCode, MillraceError> {
    let program = millrace::program(options.millrace.as_deref())?;
    let interrupt = Interrupt::install()?;
    let report = check::run(options, &program, &interrupt)?;
    let text = table::text(&report);
    if options.json {
        eprint!("\n{text}");
        println!("{}", serde_json::to_string_pretty(&report).expect("strings and numbers"));
    } else {
        print!("{text}");
    }
    Ok(if report.answers.has_faults() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
