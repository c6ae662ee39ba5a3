//! The time of a start, and memory, with a guest at each port.

use super::error::PortsError;
use super::figure::Guests;
use super::options::Ports;
use super::subject::{Program, Subject};
use crate::record::rounded;
use lab::process::Interrupt;
use lab::{Error, Result};
use std::time::{Duration, Instant};

/// Time for a switch that has started, or got its last guest, to come to rest.
const REST: Duration = Duration::from_secs(1);

/// Measures all switches in turn.
pub fn measure(
    options: &Ports,
    programs: &[Program],
    interrupt: &Interrupt,
) -> std::result::Result<Vec<Guests>, PortsError> {
    let new = |program: &Program| Guests {
        switch: program.name().to_owned(),
        guests: options.guests,
        start_ms: vec![],
        two_mib: vec![],
        started_mib: vec![],
        connected_mib: vec![],
    };
    let mut rows: Vec<Guests> = programs.iter().map(new).collect();
    for round in 1..=options.rounds {
        for (program, row) in programs.iter().zip(&mut rows) {
            eprintln!("[{round}/{}] guests: {}", options.rounds, row.switch);
            once(program, row, options, interrupt)?;
        }
    }
    Ok(rows)
}

fn once(
    program: &Program,
    row: &mut Guests,
    options: &Ports,
    interrupt: &Interrupt,
) -> std::result::Result<(), PortsError> {
    let names = names(options.guests);
    let two = Subject::start(program, &names[..2.min(names.len())], options, interrupt)?;
    interrupt.sleep(REST)?;
    row.two_mib.push(memory(&two)?);
    drop(two);
    let began = Instant::now();
    let mut subject = Subject::start(program, &names, options, interrupt)?;
    row.start_ms.push(rounded(began.elapsed().as_secs_f64() * 1e3, 1));
    interrupt.sleep(REST)?;
    row.started_mib.push(memory(&subject)?);
    let guests = names.iter().map(|name| subject.connect(name)).collect::<Result<Vec<_>>>()?;
    subject.wait_up(&names, interrupt)?;
    interrupt.sleep(REST)?;
    row.connected_mib.push(memory(&subject)?);
    drop(guests);
    Ok(())
}

/// Returns the names of ports for guests.
pub fn names(guests: u32) -> Vec<String> {
    (0..guests).map(|number| format!("g{number}")).collect()
}

/// Returns the memory that a switch has for itself, in MiB.
fn memory(subject: &Subject) -> Result<f64> {
    let all = subject.processes().into_iter().map(|pid| {
        let path = format!("/proc/{pid}/status");
        let text = std::fs::read_to_string(&path).map_err(Error::io(format!("reading {path}")))?;
        own_kib(&text).ok_or_else(|| Error::malformed(path, "it has no sizes"))
    });
    Ok(rounded(all.sum::<Result<u64>>()? as f64 / 1024.0, 1))
}

/// Returns anonymous memory and huge pages, in KiB, from a text of `/proc/PID/status`.
fn own_kib(status: &str) -> Option<u64> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    Some(field("RssAnon")? + field("HugetlbPages")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_guests_does_not_count() {
        let text = "VmRSS:\t 900 kB\nRssAnon:\t     120 kB\nRssFile:\t 30 kB\nRssShmem:\t 750 kB\nHugetlbPages:\t    2048 kB\n";
        assert_eq!((own_kib(text), own_kib("RssAnon:\t1 kB\n")), (Some(2168), None));
    }
}
