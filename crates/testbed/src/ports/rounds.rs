//! The time by which ports without frames make a round longer.

use super::error::PortsError;
use super::figure::Rounds;
use super::guests::names;
use super::options::Ports;
use super::subject::{Program, Subject};
use crate::record::rounded;
use lab::Result;
use lab::process::Interrupt;
use std::time::Duration;

/// Time over which rounds are counted, and the time before.
const COUNTED: Duration = Duration::from_secs(1);
const BEFORE: Duration = Duration::from_millis(300);

/// Measures each Millrace in turn, on a processor with this frequency of its cycle counter.
pub fn measure(
    options: &Ports,
    programs: &[Program],
    tsc_ghz: f64,
    interrupt: &Interrupt,
) -> std::result::Result<Vec<Rounds>, PortsError> {
    let new = |program: &Program| Rounds {
        switch: program.name().to_owned(),
        ports: options.guests,
        alone_ns: vec![],
        down_ns: vec![],
        silent_ns: vec![],
    };
    // Without a port, Open vSwitch has no thread that polls: there is no round to compare with.
    let programs = || programs.iter().filter(|program| !matches!(program, Program::Ovs));
    let mut rows: Vec<Rounds> = programs().map(new).collect();
    for round in 1..=options.rounds {
        for (program, row) in programs().zip(&mut rows) {
            eprintln!("[{round}/{}] rounds: {}", options.rounds, row.switch);
            let alone = once(program, 0, false, options, tsc_ghz, interrupt)?;
            let down = once(program, options.guests, false, options, tsc_ghz, interrupt)?;
            let silent = once(program, options.guests, true, options, tsc_ghz, interrupt)?;
            let each = |all: f64| rounded((all - alone) / f64::from(options.guests), 2);
            row.alone_ns.push(rounded(alone, 1));
            row.down_ns.push(each(down));
            row.silent_ns.push(each(silent));
        }
    }
    Ok(rows)
}

/// Returns the length of a round beside this number of ports, in nanoseconds.
fn once(
    program: &Program,
    ports: u32,
    connects: bool,
    options: &Ports,
    tsc_ghz: f64,
    interrupt: &Interrupt,
) -> std::result::Result<f64, PortsError> {
    let names = names(ports);
    let mut subject = Subject::start_busy(program, &names, options, interrupt)?;
    let guests = match connects {
        true => names.iter().map(|name| subject.connect(name)).collect::<Result<Vec<_>>>()?,
        false => vec![],
    };
    if connects {
        subject.wait_up(&names, interrupt)?;
    }
    interrupt.sleep(BEFORE)?;
    let time = subject.round(COUNTED, tsc_ghz, interrupt)?;
    drop(guests);
    Ok(time)
}
