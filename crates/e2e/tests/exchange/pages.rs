//! Functions that do not trust each other, in a virtual machine with the kernel module zcopy: frames go by exchange of pages.

use std::path::Path;
use std::time::Instant;

use e2e::guest::{self, Job, Kernel, Module, Vm};
use e2e::{SOON, VmSwitch, wait_for};
use engine::stats::{ExchangePair, ExchangeStats};
use lab::Result;
use lab::millrace::config::*;

/// Frames of a stream, and of one with frames of 9 KB.
const FRAMES: u64 = 400;
const JUMBO: u64 = 400;

const PAIRS: [[&str; 2]; 4] = [["e0", "f0a"], ["f0b", "e1"], ["p", "f1a"], ["f1b", "e2"]];

/// Boots a machine with all programs and the module, which is not loaded.
fn machine() -> Result<Vm> {
    let kernel = Kernel::prepare_with_headers()?;
    let module = Module::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kmod/zcopy")).build(&kernel)?;
    let programs = [e2e::program().to_owned(), e2e::function("nf-forward"), e2e::companion("e2e-pages")];
    let builder = Vm::builder("pages").processors(2).memory_mib(512).file(module);
    let vm = programs.into_iter().fold(builder, |builder, program| builder.program(program)).spawn(&kernel)?;
    vm.wait_ready(guest::READY)?;
    Ok(vm)
}

/// Starts a switch, with all ports in an exchange.
fn switch(vm: &Vm, threshold: Threshold) -> Result<VmSwitch<'_>> {
    let mode = ExchangeMode::Zcopy.into();
    let exchange = RawExchange { mode, threshold: threshold.into(), ..exchange(PAIRS.concat()) };
    VmSwitch::start(vm, (PAIRS.map(|[a, b]| patched(a, b)), exchange, sleeper()))
}

/// Starts a function that forwards between two ports, and waits until it does.
fn forward(vm: &Vm, switch: &VmSwitch, [a, b]: [&str; 2]) -> Result<Job> {
    let job = vm.start(&format!("cd /tmp/m && exec nf-forward {a}.sock {b}.sock --exchange=zcopy"))?;
    wait_for("the function", || {
        let ports = switch.ctl("ports").ok()?;
        let is_up =
            |port: &str| ports.lines().any(|line| line.starts_with(&format!(" {port} ")) && line.contains("1 pair"));
        (is_up(a) && is_up(b)).then_some(())
    });
    Ok(job)
}

fn pair(switch: &VmSwitch, from: &str, to: &str) -> Result<ExchangePair> {
    let exchanges: Vec<ExchangeStats> = serde_json::from_str(&switch.ctl("--json exchange")?).expect("JSON");
    let mut pairs = exchanges.into_iter().flat_map(|exchange| exchange.pairs);
    Ok(pairs.find(|pair| pair.from.as_deref() == Some(from) && pair.to == to).unwrap_or_default())
}

fn end(vm: &Vm, job: Job) -> Result<()> {
    vm.kill(&job)?;
    vm.finish(job, SOON).map(drop)
}

#[test]
fn frames_go_by_exchange_of_pages() -> Result<()> {
    let vm = machine()?;
    let began = Instant::now();

    // Without the module, the switch says why it copies, and functions why they do not start.
    let without = switch(&vm, Threshold::Bytes(0))?;
    let shown = without.ctl("exchange")?;
    assert!(shown.contains("copy: opening /dev/zcopy:") && shown.contains("load the module"), "{shown}");
    let function = vm.run("cd /tmp/m && exec nf-forward f0a.sock f0b.sock --exchange=zcopy")?;
    assert!(function.status != 0 && function.output.contains("load the module"), "{}", function.output);
    without.stop()?;

    vm.check("insmod /files/zcopy.ko")?;
    // The switch opens the device to measure, confined as it is.
    let measuring = switch(&vm, Threshold::Measured)?;
    let function = forward(&vm, &measuring, ["f0a", "f0b"])?;
    let shown = measuring.ctl("exchange")?;
    assert!(shown.contains("(measured); functions: 1.") && !shown.contains("Nothing is exchanged"), "{shown}");
    println!("{shown}");
    end(&vm, function)?;
    measuring.stop()?;

    let running = switch(&vm, Threshold::Bytes(0))?;
    let mut first = forward(&vm, &running, ["f0a", "f0b"])?;
    let second = forward(&vm, &running, ["f1a", "f1b"])?;
    let said = vm.check(&format!("cd /tmp/m && exec e2e-pages e0.sock e1.sock {FRAMES}"))?;
    println!("{said}; after {:?}", began.elapsed());
    for [from, to] in [PAIRS[0], PAIRS[1]] {
        let pair = pair(&running, from, to)?;
        assert!((pair.exchanged, pair.copied.len()) == (FRAMES, 0), "{pair:?}");
    }

    // A port with other memory gets in by copy; the copies go on as pages, long ones as three.
    let said = vm.check(&format!("cd /tmp/m && exec e2e-pages p.sock e2.sock {JUMBO} plain"))?;
    println!("{said}; after {:?}", began.elapsed());
    let (copied, exchanged) = (pair(&running, "p", "f1a")?, pair(&running, "f1b", "e2")?);
    assert_eq!(copied.exchanged, 0, "{copied:?}");
    assert!((exchanged.exchanged, exchanged.copied.len()) == (JUMBO, 0), "{exchanged:?}");
    assert!(running.ctl("drops")?.contains("No frames were dropped"));

    // A function is killed while frames pass, and another takes its place.
    for _ in 0..2 {
        let before = pair(&running, "f0b", "e1")?.exchanged;
        let stream = vm.start(&format!("cd /tmp/m && exec e2e-pages e0.sock e1.sock {FRAMES} lossy"))?;
        wait_for("frames", || (pair(&running, "f0b", "e1").ok()?.exchanged > before).then_some(()));
        end(&vm, first)?;
        first = forward(&vm, &running, ["f0a", "f0b"])?;
        println!("{}; after {:?}", vm.checked(stream, SOON)?, began.elapsed());
    }
    println!("{}", running.ctl("exchange")?);

    [first, second].into_iter().try_for_each(|job| end(&vm, job))?;
    running.stop()?;
    let stats = vm.check("cat /sys/module/zcopy/parameters/stats")?;
    assert!(stats.starts_with("areas 0\npages 0\n"), "{stats}");
    println!("{stats}");
    vm.check("rmmod zcopy")?;
    let complaints = vm.run("dmesg | grep -E 'BUG|WARNING|Oops|Bad page|Call Trace|zcopy_'")?;
    assert_eq!(complaints.status, 1, "{}", complaints.output);
    vm.power_off(SOON)?;
    println!("all in {:?}", began.elapsed());
    Ok(())
}
