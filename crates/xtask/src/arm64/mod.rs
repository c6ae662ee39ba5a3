//! Machines of arm64, emulated: what rests on a kernel of another processor, and on the size of its pages, runs there.

mod files;

use crate::command::Context;
use crate::debian::{self, Debian};
use crate::failure::Failure;
use crate::part::Binary;
use crate::platforms::ARM64_MUSL;
use files::Files;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Debian's packages for this, besides those of [`crate::platforms`]: an emulator of machines, and what packs their files.
pub const PACKAGES: [&str; 3] = ["qemu-system-arm", "cpio", "xz-utils"];

/// The release that has kernels with pages of two sizes for arm64.
const SUITE: &str = "trixie";

/// Machines: the package that depends on the newest kernel, and the size of its pages in KiB.
const MACHINES: [(&str, u32); 2] = [("linux-image-cloud-arm64", 4), ("linux-image-arm64-16k", 16)];

/// Crates that speak with the kernel, whose tests an emulator of programs cannot run.
const GROUND: [&str; 4] = ["virtqueue", "vhost-user", "netdev", "xsk"];

/// Tests that start programs which the machines do not have, and those of rings, which an emulator of programs runs.
const OTHERS: [&str; 3] = ["dpdk", "qemu", "rings"];

/// Which tests of a binary run: of rings, those that need a kernel or the size of its pages; of events, not the one that waits until
/// a thousand signals in a row take less than 50 microseconds, which an emulated processor does not achieve.
const PARTS: [(&str, &str); 2] =
    [("virtqueue", "memory::"), ("vhost_user", "--skip event::tests::a_signal_that_takes_long")];

/// Drivers of DPDK, which it loads when it starts, and what the C library loads when a thread is cancelled, as at its end.
const LOADED: [&str; 3] = ["librte_net_virtio.so.25.0", "librte_mempool_ring.so.25.0", "libgcc_s.so.1"];

/// Modules of the kernel that tests of interfaces need.
const MODULES: [&str; 2] = ["tun", "veth"];

/// Seconds that a machine may take. It takes half an hour, and much more on a busy machine.
const LIMIT: u32 = 4 * 60 * 60;

/// A program that a machine runs.
struct Job {
    name: String,
    command: String,
}

impl Job {
    fn new(name: impl Into<String>, command: impl Into<String>) -> Job {
        Job { name: name.into(), command: command.into() }
    }
}

/// All that machines run.
#[derive(Default)]
struct Work {
    /// Programs, with their names in a machine.
    programs: Vec<(PathBuf, String)>,
    /// Programs that a machine runs, in this order.
    jobs: Vec<Job>,
}

/// Boots machines whose kernels differ in the size of pages, and runs the tests of the ground floor and the demonstration in each.
pub fn check(context: &Context) -> Result<(), Failure> {
    let place = context.target("arm64");
    debian::make(&place)?;
    let debian = Debian::new(context, SUITE, "arm64", &place)?;
    let packages =
        debian.files(&["busybox-static", "iproute2", "dpdk-dev", "librte-net-virtio25", "librte-mempool-ring25"])?;
    let Work { programs, jobs } = build(context)?;
    Failure::of_all(MACHINES.map(|(newest, pages)| {
        let kernel = debian.kernel(newest)?;
        let files = Files::new(context, packages.clone(), place.join("root"))?;
        ["usr/bin/busybox", "usr/bin/ip", "usr/bin/dpdk-testpmd"]
            .into_iter()
            .try_for_each(|path| files.debian(path))?;
        files.debian_named(&LOADED)?;
        files.modules(&kernel, &MODULES)?;
        for (program, job) in &programs {
            files.program(program, job)?;
        }
        files.text("init", include_str!("init.sh"))?;
        files.text("programs/exchange", include_str!("exchange.sh"))?;
        let lines: Vec<String> = jobs.iter().map(|job| format!("{} {}\n", job.name, job.command)).collect();
        files.text("jobs", &lines.concat())?;
        let initrd = place.join("initrd");
        files.pack(&initrd)?;
        boot(context, &kernel, &initrd, pages, &jobs)
    }))
}

/// Builds the tests and the switch.
fn build(context: &Context) -> Result<Work, Failure> {
    let cargo = |words: &[&str]| {
        let run =
            context.cargo(words).args(&["--target", ARM64_MUSL]).env("CARGO_TARGET_DIR", context.target("platforms"));
        run.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "aarch64-linux-gnu-gcc")
    };
    let mut work = Work::default();
    let packages = GROUND.map(|name| format!("--package=millrace-{name}"));
    let words = ["test", "--no-run", "--message-format=json-render-diagnostics", "--lib", "--tests"];
    let tests = cargo(&words).args(&packages.each_ref().map(String::as_str)).named("build of tests for arm64");
    tests.each_line(|line| {
        let binary = serde_json::from_str::<Value>(line).ok().and_then(|message| Binary::of(&message));
        let Some(binary) = binary.filter(|binary| !OTHERS.contains(&&*binary.target)) else { return };
        let name = format!("{}-{}", binary.package(), binary.target);
        let part = PARTS.iter().find(|(target, _)| *target == binary.target).map_or("", |(_, part)| part);
        work.jobs.push(Job::new(&name, format!("/programs/{name} {part}")));
        work.programs.push((PathBuf::from(binary.program), name));
    })?;
    // Beside the same packages: with other features of what they share, all would be built again.
    let switch = cargo(&["build", "--package=millrace"]).args(&packages.each_ref().map(String::as_str));
    switch.named("build of millrace for arm64").run()?;
    let switch = context.target("platforms").join(ARM64_MUSL).join("debug/millrace");
    work.programs.push((switch, "millrace".into()));
    work.jobs.push(Job::new("demo", "/programs/millrace demo"));
    work.jobs.push(Job::new("exchange", "/programs/exchange"));
    Ok(work)
}

/// Boots a machine and compares what its jobs say with what they have to.
fn boot(context: &Context, kernel: &Path, initrd: &Path, pages: u32, jobs: &[Job]) -> Result<(), Failure> {
    let version = kernel.file_name().unwrap_or_default().to_string_lossy().replace("linux-image-", "");
    let image = kernel.join("boot").join(format!("vmlinuz-{version}")).display().to_string();
    let machine = format!("arm64 with pages of {pages} KiB");
    let limit = LIMIT.to_string();
    // The other kind of pointer authentication takes most of the emulator's time.
    let run = context.command("timeout").args(&["--foreground", "--kill-after=10", &limit, "qemu-system-aarch64"]);
    let run = run.args(&["-machine", "virt", "-cpu", "max,pauth-impdef=on", "-accel", "tcg", "-smp", "2", "-m", "2G"]);
    let run = run.args(&["-nodefaults", "-no-reboot", "-display", "none", "-serial", "file:/dev/stdout"]);
    let run = run.args(&["-kernel", &image, "-initrd", &initrd.display().to_string()]);
    // Files of a tmpfs would be memory to tests. The kernel passes words that it does not know to the first process.
    let append = format!("console=ttyAMA0 quiet panic=-1 rootfstype=ramfs pages_kib={pages}");
    let mut passed = Vec::new();
    let ended = run.args(&["-append", &append]).named(&machine).each_line(|line| {
        let line = line.trim_end();
        println!("{line}");
        passed.extend(line.strip_prefix("@end ").and_then(|end| end.strip_suffix(" 0")).map(str::to_owned));
    });
    println!("{machine}, kernel {version}: passed: {}", passed.join(", "));
    ended.map_err(|failure| format!("{machine}: {failure}, or its time of {} minutes was over", LIMIT / 60))?;
    let failed = jobs.iter().map(|job| &*job.name).filter(|name| !passed.iter().any(|one| one == name));
    let failed: Vec<&str> = failed.collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("{machine}: failed or not run: {}", failed.join(", ")).into()),
    }
}
