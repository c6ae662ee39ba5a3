//! Processor time of processes and of the kernel's own threads.

use super::usage::cpu_time_of;
use crate::Result;
use std::fs;
use std::time::Duration;

/// Returns the processor time that all threads of a process have used.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    cpu_time_of(pid)
}

/// Returns the names and processor times of the kernel's threads that have used any.
pub fn kernel_threads() -> Vec<(String, Duration)> {
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let thread = |pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let name = kernel_thread(&stat)?.to_owned();
        let time = cpu_time_of(pid).ok().filter(|time| !time.is_zero())?;
        Some((name, time))
    };
    pids.filter_map(thread).collect()
}

/// Returns the name in a line of `/proc/PID/stat` if it is a thread of the kernel: a child of process 2.
fn kernel_thread(stat: &str) -> Option<&str> {
    let (head, rest) = stat.rsplit_once(") ")?;
    let parent = rest.split_ascii_whitespace().nth(1)?;
    (parent == "2").then(|| head.split_once('(').map(|(_, name)| name))?
}

/// Returns the time that all processors spent in software interrupts, in which the kernel forwards frames.
pub fn softirqs() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    // The seventh figure of the first line (proc(5)).
    let ticks: u64 = stat.lines().next()?.split_ascii_whitespace().nth(7)?.parse().ok()?;
    Some(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_kernel_are_told_from_others() {
        assert_eq!(kernel_thread("13 (ksoftirqd/0) S 2 0 0 0 -1"), Some("ksoftirqd/0"));
        assert_eq!(kernel_thread("99 (a (b) c) S 2 0"), Some("a (b) c"));
        assert_eq!(kernel_thread("7 (sh) S 1 7 7"), None);
        assert!(softirqs().is_some());
    }
}
