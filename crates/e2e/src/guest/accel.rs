//! KVM where it works, emulation elsewhere.

use std::fs::{self, OpenOptions};
use std::time::Duration;

use super::kernel::lock;
use super::{Kernel, Vm};
use lab::{Error, Result};

/// QEMU's way to run a guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accel {
    /// Run by the processor.
    Kvm,
    /// Translated by QEMU.
    Tcg,
}

impl Accel {
    /// Returns the fastest way that works on this machine.
    ///
    /// Opening /dev/kvm proves nothing: if the processor itself cannot virtualize, KVM runs only kernels made for it. Otherwise
    /// boots a guest once, and keeps the result until the host reboots.
    pub fn detect(kernel: &Kernel) -> Result<Self> {
        let opens = OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
        if !opens || !virtualizes(&read("/proc/cpuinfo")?) {
            return Ok(Accel::Tcg);
        }
        let boot = read("/proc/sys/kernel/random/boot_id")?;
        let memory = kernel.directory().join("kvm-works");
        let _lock = lock(kernel.directory())?;
        let known = fs::read_to_string(&memory).unwrap_or_default();
        let works = match known.split_once(' ') {
            Some((then, works)) if then == boot.trim_end() => works == "yes",
            _ => {
                let works = Self::kvm_boots(kernel);
                let known = format!("{} {}", boot.trim_end(), if works { "yes" } else { "no" });
                fs::write(&memory, known).map_err(Error::io(format!("writing {}", memory.display())))?;
                works
            }
        };
        Ok(if works { Accel::Kvm } else { Accel::Tcg })
    }

    fn kvm_boots(kernel: &Kernel) -> bool {
        // A working KVM boots in well under a second; a broken one stops with an error, or loops forever.
        let vm = Vm::builder("kvm-probe").accel(Accel::Kvm).spawn(kernel);
        vm.is_ok_and(|vm| vm.wait_ready(Duration::from_secs(8)).is_ok())
    }

    pub(super) fn arguments(self) -> [&'static str; 4] {
        match self {
            Accel::Kvm => ["-accel", "kvm", "-cpu", "host"],
            // QEMU 7.2 may leave wrong flags after cmpxchg16b, and Linux 6.12 crashes. It boots without this instruction.
            Accel::Tcg => ["-accel", "tcg", "-cpu", "max,-cx16"],
        }
    }

    pub(super) fn kernel_arguments(self) -> &'static str {
        match self {
            Accel::Kvm => "",
            // An emulated time stamp counter is calibrated wrongly when the host is busy.
            Accel::Tcg => " clocksource=hpet no_timer_check",
        }
    }
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).map_err(Error::io(format!("reading {path}")))
}

/// Reports whether the processor has VT-x or SVM.
fn virtualizes(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split_ascii_whitespace().any(|flag| flag == "vmx" || flag == "svm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_counts_not_a_part_of_it() {
        assert!(virtualizes("model\t: 1\nflags\t\t: fpu svm lm\n"));
        assert!(!virtualizes("vmx flags\t: ept_ad\nflags\t\t: fpu svm_lock lm\n"));
    }
}
