//! Processor time of processes and of the kernel's own threads.

use super::usage::cpu_time_of;
use crate::Result;
use std::fs;
use std::time::Duration;

/// Returns the processor time that all threads of a process have used.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    cpu_time_of(pid)
}

/// A thread of the kernel.
#[derive(Clone, Debug)]
pub struct KernelThread {
    /// Its number, and when it started, in ticks since the machine did: no other thread ever has both.
    pub id: (u32, u64),
    /// Its name. Those that work for all of the kernel rename themselves, so they are all `kworker` here.
    pub name: String,
    /// Processor time that it has used.
    pub time: Duration,
}

/// Returns the kernel's threads that have used any processor time.
pub fn kernel_threads() -> Vec<KernelThread> {
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let thread = |pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (name, started) = kernel_thread(&stat)?;
        let time = cpu_time_of(pid).ok().filter(|time| !time.is_zero())?;
        Some(KernelThread { id: (pid, started), name: name.to_owned(), time })
    };
    pids.filter_map(thread).collect()
}

/// Returns the name and the start in a line of `/proc/PID/stat` if it is a thread of the kernel: a child of process 2 (proc(5)).
fn kernel_thread(stat: &str) -> Option<(&str, u64)> {
    let (head, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split_ascii_whitespace().skip(1);
    let is_kernel = fields.next()? == "2";
    let started = fields.nth(17)?.parse().ok()?;
    let (_, name) = head.split_once('(').filter(|_| is_kernel)?;
    Some((if name.starts_with("kworker/") { "kworker" } else { name }, started))
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
        let between = "0 0 0 -1 69238880 0 0 0 0 11 22 0 0 20 0 1 0";
        let stat = |name: &str, parent| format!("13 ({name}) S {parent} {between} 47 0 0 18446744073709551615");
        assert_eq!(kernel_thread(&stat("ksoftirqd/0", 2)), Some(("ksoftirqd/0", 47)));
        assert_eq!(kernel_thread(&stat("a (b) c", 2)), Some(("a (b) c", 47)));
        assert_eq!(kernel_thread(&stat("kworker/1:2-events", 2)), Some(("kworker", 47)));
        assert_eq!(kernel_thread(&stat("sh", 1)), None);
        assert!(softirqs().is_some());
    }
}
