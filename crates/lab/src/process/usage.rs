//! Resource usage of a process, read from `/proc`.

use std::fs;
use std::time::Duration;

use crate::{Error, Result};

/// A process's resource usage at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Resident memory, in bytes.
    pub rss: u64,
    /// Open file descriptors.
    pub fds: usize,
    /// Memory mappings.
    pub mappings: usize,
    /// Threads.
    pub threads: usize,
    /// CPU time of all threads since the start, user and system, in steps of a clock tick (10 ms).
    pub cpu: Duration,
}

impl Usage {
    /// Reads the resource usage of the process `pid`.
    pub fn of(pid: u32) -> Result<Self> {
        Ok(Self {
            rss: resident_pages(&read(pid, "statm")?)? * rustix::param::page_size() as u64,
            fds: count(pid, "fd")?,
            mappings: read(pid, "maps")?.lines().count(),
            threads: count(pid, "task")?,
            cpu: cpu_time_of(pid)?,
        })
    }
}

pub(super) fn cpu_time_of(pid: u32) -> Result<Duration> {
    cpu_time(&read(pid, "stat")?, rustix::param::clock_ticks_per_second())
}

/// Returns all descendants of `pid`, in no particular order.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut unvisited = vec![pid];
    while let Some(pid) = unvisited.pop() {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for task in tasks.flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            unvisited.extend(children.split_ascii_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
        found.push(pid);
    }
    found.retain(|&found| found != pid);
    found
}

/// Returns the name of the program that `pid` runs, cut to 15 characters by the kernel.
pub(crate) fn program(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    // Lossy: a mapping is named by a path, which need not be UTF-8.
    let bytes = fs::read(&path).map_err(Error::io(format!("reading {path}")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn count(pid: u32, directory: &str) -> Result<usize> {
    let path = format!("/proc/{pid}/{directory}");
    Ok(fs::read_dir(&path).map_err(Error::io(format!("listing {path}")))?.count())
}

fn resident_pages(statm: &str) -> Result<u64> {
    let field = statm.split_ascii_whitespace().nth(1).and_then(|field| field.parse().ok());
    field.ok_or_else(|| Error::malformed("/proc/PID/statm", format!("no resident size in {statm:?}")))
}

fn cpu_time(stat: &str, ticks_per_second: u64) -> Result<Duration> {
    let malformed = || Error::malformed("/proc/PID/stat", format!("no CPU time in {stat:?}"));
    // The program's name may hold blanks and parentheses: count from the last parenthesis. The state, field 3 of proc(5),
    // follows it. User and system time are fields 14 and 15.
    let (_, fields) = stat.rsplit_once(") ").ok_or_else(malformed)?;
    let ticks: Vec<u64> =
        fields.split_ascii_whitespace().skip(14 - 3).take(2).filter_map(|field| field.parse().ok()).collect();
    match ticks[..] {
        [user, system] => Ok(Duration::from_millis((user + system) * 1000 / ticks_per_second)),
        _ => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_after_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 1 0 1000 1 1";
        assert_eq!(cpu_time(stat, 100).unwrap(), Duration::from_secs(2));
        assert!(cpu_time("7 (a) S 1", 100).is_err());
    }

    #[test]
    fn an_open_file_is_counted() {
        let before = Usage::of(std::process::id()).unwrap();
        assert!(before.rss > 0 && before.mappings > 0 && before.threads > 0, "{before:?}");
        // Other tests of this process open and close files too, but never a hundred.
        let files: Vec<_> = (0..200).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        let during = Usage::of(std::process::id()).unwrap();
        assert!(during.fds > before.fds + 100, "{before:?} {during:?}");
        drop(files);
    }
}
