//! Tools that the steps need besides Rust, and their installation.

use crate::command::Context;
use crate::failure::Failure;
use crate::{arm64, platforms};
use std::sync::{Mutex, PoisonError};

/// Debian packages of the tools that the harness of the end-to-end tests runs. The guest kernel is not among them: the
/// harness downloads it without installing it, using `apt`, `dpkg` and the decompressors of this list.
const HARNESS: &str = include_str!("../../e2e/debian-packages.txt");

/// A requirement of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Debian packages with tools that the tests run.
    Packages,
    /// Huge pages. Tests that need them report their skipped parts without them.
    HugePages,
    /// A scheduler without groups of sessions.
    NoAutogroups,
    /// valgrind and the runner of the instruction counts.
    Valgrind,
    /// A nightly toolchain with Miri.
    Miri,
    /// A nightly toolchain with cargo-fuzz.
    Fuzzer,
    /// Compilers for other platforms, and an emulator of one.
    Platforms,
    /// Emulated machines, and programs for them.
    Machines,
    /// cargo-deny.
    Deny,
    /// Programs that make packages, and Debian's checks of them.
    Packagers,
    /// Tools that make a Debian, and boot it.
    Debian,
}

/// Installs everything needed, or reports what is missing and cannot be installed.
pub fn prepare(context: &Context, needs: &[Need]) -> Result<(), Failure> {
    for need in needs {
        match need {
            Need::Packages => {
                let harness: Vec<&str> = HARNESS.split_whitespace().collect();
                packages(context, &harness)?;
                // ovs-ofctl and osken-manager, for the tests of OpenFlow.
                packages(context, &["openvswitch-common", "python3-os-ken"])?;
                // For the test of the Wireshark dissector, and those of capture files.
                packages(context, &["tshark", "tcpdump"])?;
                // systemd-analyze, for the test of the service.
                packages(context, &["systemd"])?;
            }
            Need::HugePages => huge_pages(),
            Need::NoAutogroups => no_autogroups(),
            Need::Valgrind => {
                packages(context, &["valgrind"])?;
                let version = locked_version(context, "gungraun")?;
                install(context, "gungraun-runner", &["--version", &version], |said| said.contains(&version))?;
            }
            Need::Miri => {
                nightly(context)?;
                if context.cargo(&["+nightly", "miri", "--version"]).probe().is_none() {
                    let add = ["component", "add", "--toolchain", "nightly", "miri", "rust-src"];
                    context.command("rustup").args(&add).run()?;
                }
            }
            Need::Fuzzer => {
                nightly(context)?;
                install(context, "cargo-fuzz", &[], |_| true)?;
            }
            Need::Platforms => {
                packages(context, &platforms::PACKAGES)?;
                context
                    .command("rustup")
                    .args(&["target", "add", platforms::ARM64, platforms::MUSL, platforms::ARM64_MUSL])
                    .run()?;
            }
            Need::Machines => {
                packages(context, &[&platforms::PACKAGES[..], &arm64::PACKAGES].concat())?;
                context.command("rustup").args(&["target", "add", platforms::ARM64_MUSL]).run()?;
            }
            Need::Packagers => {
                packages(context, &["lintian", "rpm", "libdpdk-dev", "pkg-config", "make", "gcc"])?;
                install(context, "cargo-deb", &[], |_| true)?;
                install(context, "cargo-generate-rpm", &[], |_| true)?;
            }
            Need::Debian => {
                packages(context, &["mmdebstrap", "busybox-static", "cpio", "xz-utils"])?;
                let emulator = if cfg!(target_arch = "aarch64") { "qemu-system-arm" } else { "qemu-system-x86" };
                packages(context, &[emulator])?;
            }
            // Without its features: they add a TLS library for downloads that git does as well.
            Need::Deny => install(context, "cargo-deny", &["--no-default-features"], |_| true)?,
        }
    }
    Ok(())
}

fn packages(context: &Context, wanted: &[&str]) -> Result<(), Failure> {
    // Debian's tools do not wait for each other.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let installed = |package: &&&str| {
        let query = ["--show", "--showformat", "${db:Status-Status}", package];
        context.command("dpkg-query").args(&query).probe().is_some_and(|status| status == "installed")
    };
    let missing: Vec<&str> = wanted.iter().filter(|p| !installed(p)).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if context.command("dpkg-query").args(&["--version"]).probe().is_none() {
        return Err(format!("this is not Debian; the tests need the content of its packages {list}").into());
    }
    if !rustix::process::geteuid().is_root() {
        return Err(format!("Debian packages are missing; as root: apt-get install {list}").into());
    }
    let apt = |arguments: &[&str]| {
        let run = context.command("apt-get").env("DEBIAN_FRONTEND", "noninteractive").args(&["-qq"]);
        run.args(arguments).run()
    };
    apt(&["update"])?;
    apt(&[&["install", "--yes", "--no-install-recommends"], &missing[..]].concat())
}

/// Requests huge pages: enough for several switches and loads on DPDK side by side, and at most a quarter of the memory. Best effort:
/// nothing fails without them.
fn huge_pages() {
    const PATH: &str = "/proc/sys/vm/nr_hugepages";
    const MOST: u64 = 2048;
    let read = || std::fs::read_to_string(PATH).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let Some(before) = read() else { return println!("huge pages: this kernel has none") };
    let wanted = (rustix::system::sysinfo().totalram / 4 / (2 << 20)).min(MOST);
    if before < wanted {
        let _ = std::fs::write(PATH, wanted.to_string());
    }
    println!("huge pages: {} (before: {before}, wanted: {wanted})", read().unwrap_or(before));
}

/// Lets the scheduler treat all threads alike, instead of all sessions. Otherwise the threads of the kernel wait for seconds behind a
/// session that runs many programs, and so do tests, for grace periods of RCU: programs that end, interfaces and namespaces that go.
/// Best effort: tests take longer without it.
fn no_autogroups() {
    const PATH: &str = "/proc/sys/kernel/sched_autogroup_enabled";
    if std::fs::read_to_string(PATH).is_ok_and(|on| on.trim() == "1") {
        let done = std::fs::write(PATH, "0");
        println!(
            "kernel.sched_autogroup_enabled: {}",
            if done.is_ok() { "0 (before: 1)" } else { "1; as root it would be set to 0" }
        );
    }
}

fn nightly(context: &Context) -> Result<(), Failure> {
    let found = context.command("rustc").args(&["+nightly", "--version"]).probe();
    match found {
        Some(version) => {
            print!("nightly: {version}");
            Ok(())
        }
        None => Err("there is no nightly toolchain; `rustup toolchain install nightly -c miri -c rust-src`".into()),
    }
}

/// Returns the version of a package in Cargo.lock.
pub fn locked_version(context: &Context, package: &str) -> Result<String, Failure> {
    let lock = std::fs::read_to_string(context.root.join("Cargo.lock")).map_err(|e| format!("Cargo.lock: {e}"))?;
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    let version = lines.nth(1).and_then(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    version.map(str::to_owned).ok_or_else(|| format!("Cargo.lock knows no package {package}").into())
}

/// Installs a program from the registry with these options, unless its installed version `suits`.
fn install(context: &Context, name: &str, options: &[&str], suits: impl Fn(&str) -> bool) -> Result<(), Failure> {
    if context.command(name).args(&["--version"]).probe().is_some_and(|said| suits(&said)) {
        return Ok(());
    }
    let [root, target] = [context.tools(), context.target("tools")].map(|path| path.to_string_lossy().into_owned());
    // Optimised builds would take minutes, and these programs need little time. Shared dependencies are built once.
    let place = ["install", "--locked", "--force", "--debug", "--root", &root, "--target-dir", &target, name];
    context.cargo(&place).args(options).named(format!("build of {name}")).run()
}
