//! The kernel module zcopy, in a virtual machine: `e2e-zcopy` does the checks, which docs/zcopy.md explains.

use std::path::Path;
use std::time::{Duration, Instant};

use e2e::guest::{self, Accel, Kernel, Module, Vm};
use lab::Result;

/// Time limit for a check, even emulated on a busy machine.
const LONG: Duration = Duration::from_secs(1200);

/// The machine's memory, all of which checks use more than once.
const MEMORY_MIB: usize = 192;

/// The same for a kernel that tracks each byte.
const CHECKED_MEMORY_MIB: usize = 768;

fn module() -> Module {
    Module::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kmod/zcopy"))
}

/// Boots a machine with the module's two variants, its own and one that leaves stale translations.
fn machine(kernel: &Kernel, memory_mib: usize) -> Result<Vm> {
    let sound = module().build(kernel)?;
    let stale = module().setting("ZCOPY_TEST_NOFLUSH=y").build(kernel)?;
    let renamed = stale.with_file_name("zcopy-stale.ko");
    std::fs::copy(&stale, &renamed).map_err(lab::Error::io("copying a module"))?;
    // Emulated, as then processors have nested page tables wherever this runs.
    let mut vm = Vm::builder("zcopy").accel(Accel::Tcg).processors(2).memory_mib(memory_mib);
    vm = vm.program(e2e::companion("e2e-zcopy")).file(sound).file(renamed);
    for module in ["irqbypass", "kvm", "kvm-amd"] {
        vm = vm.file(kernel.module(module));
    }
    let vm = vm.spawn(kernel)?;
    vm.wait_ready(guest::READY)?;
    println!("{}", kernel.name());
    Ok(vm)
}

/// Runs a check, which must succeed.
fn check(vm: &Vm, what: &str) -> Result<()> {
    let began = Instant::now();
    let said = vm.checked(vm.start(&format!("exec e2e-zcopy {what}"))?, LONG)?;
    println!("{what}: {:?}; {said}", began.elapsed());
    Ok(())
}

/// Checks that the kernel has found nothing wrong with memory and locks.
fn no_complaints(vm: &Vm) -> Result<()> {
    let log = vm.check("dmesg")?;
    assert!(log.contains("Linux version"), "the log has lost its begin:\n{log}");
    let words = ["BUG", "WARNING", "Oops", "Bad page", "Call Trace"];
    let complaint = log.lines().find(|line| words.iter().any(|word| line.contains(word)));
    assert_eq!(complaint, None, "{log}");
    // Documentation/admin-guide/tainted-kernels.rst: a bad page or a report of KASAN, an oops, a warning.
    let tainted: u32 = vm.check("cat /proc/sys/kernel/tainted")?.parse().expect("a number");
    assert_eq!(tainted & (1 << 5 | 1 << 7 | 1 << 9), 0, "{log}");
    // Where there is lockdep, it stops at its first report.
    let locks = vm.check("cat /proc/lockdep_stats 2>/dev/null | grep debug_locks || true")?;
    println!("tainted: {tainted}; lockdep: {}", if locks.is_empty() { "none" } else { locks.trim() });
    assert!(locks.is_empty() || locks.trim_end().ends_with('1'), "{log}");
    Ok(())
}

fn everything(kernel: &Kernel, memory_mib: usize) -> Result<()> {
    let began = Instant::now();
    let vm = machine(kernel, memory_mib)?;
    println!("ready after {:?}", began.elapsed());
    vm.check("insmod /files/irqbypass.ko; insmod /files/kvm.ko && insmod /files/kvm-amd.ko && test -c /dev/kvm")?;

    // The checks of translations must fail if there are stale ones.
    vm.check("insmod /files/zcopy-stale.ko")?;
    for what in ["identity", "faults 20", "machine 3"] {
        let outcome = vm.run(&format!("exec e2e-zcopy {what}"))?;
        println!("{what}, with stale translations: {}", outcome.output.trim_end());
        assert_eq!(outcome.status, 1, "{what} must fail: {}", outcome.output);
    }
    vm.check("rmmod zcopy")?;

    vm.check("for i in $(seq 10); do insmod /files/zcopy.ko && test -c /dev/zcopy && rmmod zcopy || exit 1; done")?;
    vm.check("insmod /files/zcopy.ko")?;
    let holder = vm.start("exec e2e-zcopy hold")?;
    vm.check("until grep -q 'areas 1' /sys/module/zcopy/parameters/stats; do sleep 0.05; done; ! rmmod zcopy 2>&1")?;
    vm.kill(&holder)?;
    vm.finish(holder, LONG)?;
    for what in ["identity", "refused", "owners 1000", "faults 50", "kills 30", "machine 60"] {
        check(&vm, what)?;
    }
    let stats = vm.check("cat /sys/module/zcopy/parameters/stats")?;
    println!("{stats}");
    assert!(stats.starts_with("areas 0\npages 0\n"), "{stats}");
    vm.check("rmmod zcopy")?;
    no_complaints(&vm)?;
    vm.power_off(LONG)?;
    println!("all in {:?}", began.elapsed());
    Ok(())
}

#[test]
fn pages_change_hands_in_a_machine() -> Result<()> {
    everything(&Kernel::prepare_with_headers()?, MEMORY_MIB)
}

#[test]
#[ignore = "downloads a kernel of the backports; see CONTRIBUTING.md"]
fn pages_change_hands_with_a_recent_kernel() -> Result<()> {
    everything(&Kernel::prepare_backported_with_headers()?, MEMORY_MIB)
}

#[test]
#[ignore = "needs a kernel that kmod/zcopy/debug-kernel.sh builds; see CONTRIBUTING.md"]
fn pages_change_hands_in_a_kernel_that_checks_them() -> Result<()> {
    let directory = std::env::var_os("E2E_KERNEL").expect("E2E_KERNEL names the directory of the kernel");
    everything(&Kernel::at(directory), CHECKED_MEMORY_MIB)
}
