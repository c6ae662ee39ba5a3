//! The time of calls that add and remove ports, while a pair of guests exchanges frames.

use super::error::PortsError;
use super::figure::Calls;
use super::options::Ports;
use super::subject::{Program, Subject};
use crate::record::rounded;
use crate::statistics::median;
use lab::guest::{Exchange, Tally};
use lab::process::Interrupt;
use lab::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Pause of the guests after each burst: others get the processor meanwhile.
const PACE: Duration = Duration::from_micros(500);

/// Silence after which no more frames are expected.
const LAST: Duration = Duration::from_secs(2);

/// Times of one round, in milliseconds.
struct Times {
    add: Vec<f64>,
    del: Vec<f64>,
    tally: Tally,
}

/// Measures all callers of all switches in turn.
pub fn measure(
    options: &Ports,
    programs: &[Program],
    interrupt: &Interrupt,
) -> std::result::Result<Vec<Calls>, PortsError> {
    let of =
        |program: &Program| Subject::callers(program).into_iter().map(|caller| (program.clone(), caller)).collect();
    let callers: Vec<(Program, (String, bool))> =
        programs.iter().flat_map(|program| -> Vec<_> { of(program) }).collect();
    let new = |(_, (name, _)): &(Program, (String, bool))| Calls {
        by: name.clone(),
        ports: options.ports,
        ..Calls::default()
    };
    let mut rows: Vec<Calls> = callers.iter().map(new).collect();
    let mut added: Vec<Vec<Vec<f64>>> = vec![Vec::new(); callers.len()];
    for round in 1..=options.rounds {
        for ((program, (name, stays)), (row, added)) in callers.iter().zip(rows.iter_mut().zip(&mut added)) {
            eprintln!("[{round}/{}] calls: {name}", options.rounds);
            let Times { add, del, tally } = once(program, *stays, options, interrupt)?;
            let [add_p50, add_p99] = [50, 99].map(|part| percentile(&add, part));
            let [del_p50, del_p99] = [50, 99].map(|part| percentile(&del, part));
            eprintln!("    add {add_p50:.2} and {add_p99:.2} ms, del {del_p50:.2} and {del_p99:.2} ms (p50, p99)");
            for (to, value) in [
                (&mut row.add_p50_ms, add_p50),
                (&mut row.add_p99_ms, add_p99),
                (&mut row.del_p50_ms, del_p50),
                (&mut row.del_p99_ms, del_p99),
            ] {
                to.push(rounded(value, 3));
            }
            row.frames.push(tally.total());
            row.lost.push(tally.sent.iter().sum::<u64>() - tally.total());
            added.push(add);
        }
    }
    for (row, added) in rows.iter_mut().zip(&added) {
        row.add_by_tenth_ms = by_tenth(added).into_iter().map(|ms| rounded(ms, 3)).collect();
    }
    Ok(rows)
}

/// Adds all ports and removes them.
fn once(
    program: &Program,
    stays: bool,
    options: &Ports,
    interrupt: &Interrupt,
) -> std::result::Result<Times, PortsError> {
    let pair = ["a", "b"].map(str::to_owned);
    let mut subject = Subject::start(program, &pair, options, interrupt)?;
    let [a, b] = [subject.connect("a")?, subject.connect("b")?];
    subject.wait_up(&pair, interrupt)?;
    let exchange = Exchange::new([a, b], [1, 2], 60..=1500, 32);
    let is_over = AtomicBool::new(false);
    let times = std::thread::scope(|scope| {
        let load = scope.spawn(|| pass(exchange, &is_over));
        let times = change(&mut subject, stays, options.ports, interrupt);
        is_over.store(true, Ordering::Relaxed);
        let tally = load.join().expect("the thread does not panic");
        times.and_then(|[add, del]| Ok(Times { add, del, tally: tally? }))
    })?;
    Ok(times)
}

/// Has the guests exchange frames until it is over.
fn pass(mut exchange: Exchange, is_over: &AtomicBool) -> Result<Tally> {
    while !is_over.load(Ordering::Relaxed) {
        exchange.step(u64::MAX)?;
        std::thread::sleep(PACE);
    }
    exchange.drain(LAST)
}

/// Returns the times of additions and of removals.
fn change(subject: &mut Subject, stays: bool, ports: u32, interrupt: &Interrupt) -> Result<[Vec<f64>; 2]> {
    let mut caller = subject.caller(stays)?;
    let timed = |act: &mut dyn FnMut(&str) -> Result<()>| {
        let one = |number: u32| {
            interrupt.check()?;
            let began = Instant::now();
            act(&format!("p{number}"))?;
            Ok(began.elapsed().as_secs_f64() * 1e3)
        };
        (0..ports).map(one).collect::<Result<Vec<f64>>>()
    };
    let add = timed(&mut |name| subject.add(&mut caller, name))?;
    let del = timed(&mut |name| subject.remove(&mut caller, name))?;
    if add.is_empty() { Err(Error::malformed("the calls", "there are none")) } else { Ok([add, del]) }
}

/// Returns the value that this part of all, in percent, does not exceed.
fn percentile(values: &[f64], part: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[(values.len() * part).div_ceil(100).saturating_sub(1)]
}

/// Returns the medians of the tenths of all rounds.
fn by_tenth(rounds: &[Vec<f64>]) -> Vec<f64> {
    let tenth = |number: usize| {
        let part = |round: &Vec<f64>| round[round.len() * number / 10..round.len() * (number + 1) / 10].to_vec();
        median(rounds.iter().flat_map(part)).unwrap_or(f64::NAN)
    };
    (0..10).map(tenth).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_of_the_sample() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!((percentile(&values, 50), percentile(&values, 99)), (100.0, 198.0));
        assert_eq!(percentile(&[7.0], 99), 7.0);
    }

    #[test]
    fn tenths_are_those_of_all_rounds() {
        let rounds = [(0..20).map(f64::from).collect(), (0..20).map(|n| f64::from(n) + 2.0).collect()];
        assert_eq!(by_tenth(&rounds)[..2], [1.5, 3.5]);
    }
}
