//! Processor time that everything involved in a run used. An application that has ended meanwhile has no share.

use super::record::CpuUse;
use lab::process::{KernelThread, cpu_time, kernel_threads, softirqs};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Least share that is worth a line.
const LEAST: f64 = 0.005;

/// Processor times at one moment.
pub struct Used {
    at: Instant,
    processes: Vec<(String, Option<Duration>)>,
    kernel: BTreeMap<(u32, u64), KernelThread>,
    softirqs: Option<Duration>,
}

impl Used {
    /// Reads the times of these processes, by name, and of the kernel's threads.
    pub fn now(processes: impl IntoIterator<Item = (String, u32)>) -> Used {
        let kernel = kernel_threads().into_iter().map(|thread| (thread.id, thread)).collect();
        let processes = processes.into_iter().map(|(name, pid)| (name, cpu_time(pid).ok())).collect();
        Used { at: Instant::now(), processes, kernel, softirqs: softirqs() }
    }

    /// Returns the shares since `before`. Processes and threads of one name are added up.
    pub fn since(&self, before: &Used) -> Vec<CpuUse> {
        let seconds = (self.at - before.at).as_secs_f64();
        let mut shares: Vec<CpuUse> = Vec::new();
        for ((name, time), (_, earlier)) in self.processes.iter().zip(&before.processes) {
            let (Some(time), Some(earlier)) = (time, earlier) else { continue };
            let share = time.saturating_sub(*earlier).as_secs_f64() / seconds;
            add(&mut shares, CpuUse { name: name.clone(), share });
        }
        let mut kernel: Vec<CpuUse> = Vec::new();
        for (id, KernelThread { name, time, .. }) in &self.kernel {
            let earlier = before.kernel.get(id).map(|thread| thread.time).unwrap_or_default();
            let share = time.saturating_sub(earlier).as_secs_f64() / seconds;
            add(&mut kernel, CpuUse { name: name.clone(), share });
        }
        if let (Some(time), Some(earlier)) = (self.softirqs, before.softirqs) {
            let share = time.saturating_sub(earlier).as_secs_f64() / seconds;
            kernel.push(CpuUse { name: "software interrupts".to_owned(), share });
        }
        shares.extend(kernel.into_iter().filter(|kernel| kernel.share >= LEAST));
        shares
    }
}

/// Adds a share to that of the same name, if there is one.
pub fn add(shares: &mut Vec<CpuUse>, share: CpuUse) {
    match shares.iter_mut().find(|known| known.name == share.name) {
        Some(known) => known.share += share.share,
        None => shares.push(share),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(at: Instant, kernel: &[(u32, &str, u64)]) -> Used {
        let thread = |&(pid, name, ms): &(u32, &str, u64)| KernelThread {
            id: (pid, 1),
            name: name.to_owned(),
            time: Duration::from_millis(ms),
        };
        let kernel = kernel.iter().map(thread).map(|thread| (thread.id, thread)).collect();
        Used { at, processes: vec![], kernel, softirqs: Some(Duration::ZERO) }
    }

    #[test]
    fn a_thread_that_has_another_name_than_before_is_the_same_one() {
        let began = Instant::now();
        let before = used(began, &[(7, "kworker", 100_000), (8, "vhost-1", 50)]);
        let after =
            used(began + Duration::from_secs(1), &[(7, "kworker", 100_200), (9, "kworker", 100), (8, "vhost-2", 550)]);
        let shares = after.since(&before);
        let share = |name: &str| shares.iter().find(|share| share.name == name).map(|share| share.share);
        let near =
            |name, wanted: f64| assert!((share(name).unwrap() - wanted).abs() < 1e-9, "{name}: {:?}", share(name));
        near("kworker", 0.3);
        near("vhost-2", 0.5);
        assert_eq!(share("software interrupts"), None);
    }
}
