//! Other processors and C libraries: everything is compiled for them, and the code below frames and rings is tested on an
//! emulated one.

use crate::command::Context;
use crate::failure::Failure;

/// Packages of Debian for this: a linker, a C library and an emulator of programs.
pub const PACKAGES: [&str; 3] = ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user"];

pub const ARM64: &str = "aarch64-unknown-linux-gnu";
pub const MUSL: &str = "x86_64-unknown-linux-musl";
/// Both; [`crate::arm64`] runs what is built for it.
pub const ARM64_MUSL: &str = "aarch64-unknown-linux-musl";

/// Crates whose tests need nothing of a kernel that an emulator of programs lacks.
const GROUND: [&str; 6] = ["packet", "roles", "trials", "paflow", "openflow", "handover"];

/// Tests of rings that need system calls which qemu-user does not pass on to the kernel: userfaultfd(2), MADV_POPULATE_WRITE
/// and faults.
const KERNEL: &str = "memory::tests::";

/// Compiles the workspace for other platforms, and runs tests of the ground floor on an emulated arm64.
pub fn check(context: &Context) -> Result<(), Failure> {
    let target = context.target("platforms");
    for platform in [MUSL, ARM64, ARM64_MUSL] {
        let check = context.cargo(&["check", "--workspace", "--target", platform]).env("CARGO_TARGET_DIR", &target);
        check.named(format!("build for {platform}")).run()?;
    }
    let packages: Vec<String> = GROUND.iter().map(|name| format!("--package=millrace-{name}")).collect();
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
    let test = |name: &str, arguments: &[&str]| {
        let test = context.cargo(&["test", "--target", ARM64]).args(arguments).env("CARGO_TARGET_DIR", &target);
        let test = test.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
        let emulator = "qemu-aarch64 -L /usr/aarch64-linux-gnu";
        test.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", emulator).named(name).run()
    };
    test("tests on arm64", &[&packages[..], &["--lib", "--tests"]].concat())?;
    let rings = ["--package=millrace-virtqueue", "--lib", "--test=rings", "--", "--skip", KERNEL];
    test("rings on arm64", &rings)
}
