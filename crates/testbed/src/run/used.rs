//! Processor time that everything involved in a run used. An application that has ended meanwhile has no share.

use super::record::CpuUse;
use lab::process::{cpu_time, kernel_threads, softirqs};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Least share that is worth a line.
const LEAST: f64 = 0.005;

/// Processor times at one moment.
pub struct Used {
    at: Instant,
    processes: Vec<(String, Option<Duration>)>,
    kernel: BTreeMap<String, Duration>,
}

impl Used {
    /// Reads the times of these processes, by name, and of the kernel's threads.
    pub fn now(processes: impl IntoIterator<Item = (String, u32)>) -> Used {
        let mut kernel = BTreeMap::new();
        kernel_threads().into_iter().for_each(|(name, time)| *kernel.entry(name).or_default() += time);
        if let Some(time) = softirqs() {
            kernel.insert("software interrupts".to_owned(), time);
        }
        let processes = processes.into_iter().map(|(name, pid)| (name, cpu_time(pid).ok())).collect();
        Used { at: Instant::now(), processes, kernel }
    }

    /// Returns the shares since `before`. Processes of one name are added up.
    pub fn since(&self, before: &Used) -> Vec<CpuUse> {
        let seconds = (self.at - before.at).as_secs_f64();
        let mut shares: Vec<CpuUse> = Vec::new();
        for ((name, time), (_, earlier)) in self.processes.iter().zip(&before.processes) {
            let (Some(time), Some(earlier)) = (time, earlier) else { continue };
            let share = time.saturating_sub(*earlier).as_secs_f64() / seconds;
            add(&mut shares, CpuUse { name: name.clone(), share });
        }
        for (name, time) in &self.kernel {
            let earlier = before.kernel.get(name).copied().unwrap_or_default();
            let share = time.saturating_sub(earlier).as_secs_f64() / seconds;
            if share >= LEAST {
                shares.push(CpuUse { name: name.clone(), share });
            }
        }
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
