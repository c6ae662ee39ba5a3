//! What holds in all interleavings (loom), and in every access to memory (Miri).

use crate::command::Context;
use crate::failure::Failure;

/// Runs the loom models in a separate target directory: the flag applies to every crate and would rebuild them all.
pub fn loom(context: &Context) -> Result<(), Failure> {
    let models = ["--package", "millrace-handover", "--package", "millrace-roles", "--lib", "model"];
    let run = context.cargo(&["test", "--profile", "loom"]).args(&models);
    run.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", context.target("loom")).run()
}

/// Runs tests of code with `unsafe` under Miri.
pub fn miri(context: &Context) -> Result<(), Failure> {
    // Guest memory is accessed by addresses that were integers on the way; files stand in for memory files.
    const FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-permissive-provenance";
    let miri = |package: &str, tests: &[&str], flags: &str| {
        let run = context.cargo(&["+nightly", "miri", "test", "--package", package]).args(tests);
        run.env("MIRIFLAGS", flags).env("CARGO_TARGET_DIR", context.target("miri")).run()
    };
    miri("millrace-packet", &["--lib", "--", "frame", "copy"], FLAGS)?;
    // Batches of variations of the same case go the same ways through memory.
    let tests = ["--lib", "--test", "hostile", "--test", "dirty_log", "--test", "aside", "--", "--skip", "batch_of"];
    miri("millrace-virtqueue", &tests, FLAGS)?;
    miri("millrace-roles", &["--lib", "--tests"], FLAGS)?;
    // Rust references into a ring point only to its atomics, and these tests create so many that tracking them takes
    // four times as long as the rest.
    miri("millrace-virtqueue", &["--test", "rings"], &format!("{FLAGS} -Zmiri-disable-stacked-borrows"))
}
