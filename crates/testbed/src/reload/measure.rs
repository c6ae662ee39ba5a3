//! One measurement: the switch runs, its configuration changes, and its capture tells the longest gap.

use super::error::ReloadError;
use super::options::{Changes, Reload};
use crate::millrace::Idle;
use capture::Reader;
use lab::millrace::config::{self, Configuration, Generator, bridge, file, patch, port, record, vhost_user};
use lab::millrace::{Files, Millrace, Start};
use lab::process::{Interrupt, Launch};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Frames in a second: a gap is known to within this time of it.
const RATE: i64 = 50_000;

/// Time before the first change and after the last one.
const MARGIN: Duration = Duration::from_millis(200);

/// Pause between two changes.
const PAUSE: Duration = Duration::from_millis(20);

/// Name of the capture beside the configuration.
const CAPTURE: &str = "watched.pcap";

/// Outcome of a measurement.
pub struct Measured {
    /// Time from the start of the program until it answers, with all ports open.
    pub start: Duration,
    /// Longest time between two frames.
    pub gap: Duration,
    /// Median time of a reload.
    pub reload: Duration,
}

/// Measures one program under one kind of change.
pub fn measure(
    options: &Reload,
    program: &Path,
    changes: Changes,
    interrupt: &Interrupt,
) -> Result<Measured, ReloadError> {
    let directory = tempfile::Builder::new().prefix("testbed-").tempdir_in("/dev/shm");
    let directory =
        directory.map_err(|source| ReloadError::System { action: "making a temporary directory", source })?;
    let files = Files::named(directory.path(), "millrace");
    let (fewer, more) = match changes {
        Changes::None | Changes::Same => (options.ports, options.ports),
        Changes::One => (options.ports, options.ports + 1),
        Changes::All => (0, options.ports),
    };
    files.configure(configuration(options, fewer))?;
    // The worker pins itself to its own processor.
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &options.control_cpu.to_string()]).arg(program);
    let launch = Launch::measured("Millrace", interrupt);
    let began = Instant::now();
    let mut switch = Start::new(program).by(command).arguments(&["--log", "error"]).launch(launch).start(files)?;
    let start = began.elapsed();
    interrupt.sleep(MARGIN)?;
    let mut times = Vec::new();
    for number in 0..options.reloads {
        let ports = if number % 2 == 0 { more } else { fewer };
        times.push(change(&switch, options, changes, ports, interrupt)?);
        interrupt.sleep(PAUSE)?;
    }
    interrupt.sleep(MARGIN)?;
    switch.stop()?;
    times.sort();
    Ok(Measured { start, gap: longest_gap(&directory.path().join(CAPTURE))?, reload: times[times.len() / 2] })
}

/// Makes one change, and returns how long that took.
fn change(
    switch: &Millrace,
    options: &Reload,
    changes: Changes,
    ports: u32,
    interrupt: &Interrupt,
) -> Result<Duration, ReloadError> {
    if changes == Changes::None {
        interrupt.sleep(MARGIN)?;
        return Ok(Duration::ZERO);
    }
    switch.files().configure(configuration(options, ports))?;
    let began = Instant::now();
    switch.reload()?;
    Ok(began.elapsed())
}

/// Returns a configuration with this number of guests' ports in a bridge, beside the watched ones.
fn configuration(options: &Reload, ports: u32) -> impl Configuration {
    let generator = Generator { size: 64.into(), rate: RATE.into(), burst: 1.into(), ..Generator::default() };
    let names: Vec<_> = (0..ports).map(|number| format!("p{number}")).collect();
    let mut all = vec![port("source", generator), record("watched", CAPTURE)];
    all.extend(names.iter().map(|name| vhost_user(name)));
    let bridges = if names.is_empty() { vec![] } else { vec![bridge("br", names)] };
    file((
        all,
        vec![patch("source", "watched")],
        bridges,
        vec![Idle::Poll.worker(options.worker_cpu)],
        config::unconfined(),
    ))
}

/// Returns the longest time between two frames of a capture.
fn longest_gap(path: &Path) -> Result<Duration, ReloadError> {
    let times = Reader::open(path)?.map(|frame| frame.map(|frame| frame.time)).collect::<Result<Vec<_>, _>>()?;
    let gaps = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    gaps.max().ok_or(ReloadError::Silent(times.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use capture::Writer;

    #[test]
    fn the_longest_gap_is_between_two_frames_that_follow_each_other() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = Writer::new(file.reopen().unwrap(), 64).unwrap();
        for time in [0, 20, 45, 46, 60] {
            writer.write(Duration::from_millis(time), &[0; 60]).unwrap();
        }
        writer.flush().unwrap();
        assert_eq!(longest_gap(file.path()).unwrap(), Duration::from_millis(25));
    }
}
