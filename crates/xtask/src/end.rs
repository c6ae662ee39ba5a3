//! The end of a program, and the processor time that it has taken.

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::io;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Pause before the next check for its end.
const PAUSE: Duration = Duration::from_millis(20);

/// The end of a program.
pub struct End {
    /// Nothing if it was killed at the deadline.
    pub status: Option<ExitStatus>,
    /// Processor time of the program, and of all those that it has started and waited for.
    pub processor_time: Duration,
}

/// Waits for the end of a program. Kills it at the deadline.
pub fn end_of(child: &mut Child, deadline: Instant) -> io::Result<End> {
    let id = Pid::from_child(child);
    // It stays in the process table, where its processor time is, until it is waited for.
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let has_ended = loop {
        let has_ended = waitid(WaitId::Pid(id), look)?.is_some();
        if has_ended || Instant::now() >= deadline {
            break has_ended;
        }
        std::thread::sleep(PAUSE);
    };
    let processor_time = processor_time(&std::fs::read_to_string(format!("/proc/{}/stat", child.id()))?);
    if !has_ended {
        child.kill()?;
    }
    let status = child.wait()?;
    Ok(End { status: has_ended.then_some(status), processor_time: processor_time.unwrap_or_default() })
}

/// Parses a line of `/proc/PID/stat`: the fields 14 to 17 are the ticks of the process and of its children, as user and in the kernel
/// (proc_pid_stat(5)).
fn processor_time(stat: &str) -> Option<Duration> {
    // The name, field 2, may contain anything.
    let (_, after_name) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = after_name.split(' ').collect();
    let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum::<Option<u64>>()?;
    Some(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Time in which any program ends.
    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let mut endless = Command::new("sleep").arg("1000").spawn().unwrap();
        assert_eq!(end_of(&mut endless, Instant::now()).unwrap().status, None);
        let mut short = Command::new("true").spawn().unwrap();
        assert!(end_of(&mut short, Instant::now() + LONG).unwrap().status.unwrap().success());
    }

    #[test]
    fn processor_time_of_programs_that_it_started_is_its_own() {
        let burn = "(i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done); sleep 0.1";
        let mut shell = Command::new("sh").args(["-c", burn]).spawn().unwrap();
        let end = end_of(&mut shell, Instant::now() + LONG).unwrap();
        assert!(end.processor_time > Duration::from_millis(10), "{:?}", end.processor_time);
    }

    #[test]
    fn a_name_may_contain_anything() {
        let stat = "7 (a) b (c) S 1 1 1 0 -1 0 0 0 0 0 100 200 300 400 20 0 1 0";
        let ticks = 1000 / rustix::param::clock_ticks_per_second();
        assert_eq!(processor_time(stat), Some(Duration::from_secs(ticks)));
        assert_eq!(processor_time("7 (a) S 1"), None);
    }
}
