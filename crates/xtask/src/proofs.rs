//! Proofs: loom runs models in all interleavings, and Miri checks each access to memory.

use crate::command::Context;
use crate::failure::Failure;

/// Runs the loom models in a separate target directory: the flag applies to every crate and would rebuild them all.
pub fn loom(context: &Context) -> Result<(), Failure> {
    let models = ["--package", "millrace-handover", "--package", "millrace-roles", "--lib", "model"];
    let run = context.cargo(&["test", "--profile", "loom"]).args(&models);
    let run = run.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", context.target("loom"));
    run.named("models of threads").run()
}

/// Runs tests of code with `unsafe` under Miri.
pub fn miri(context: &Context) -> Result<(), Failure> {
    // Guest memory is accessed by addresses that were integers on the way; files stand in for memory files.
    const FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-permissive-provenance";
    let miri = |package: &str, tests: &[&str]| {
        let run = context.cargo(&["+nightly", "miri", "test", "--package", package]).args(tests);
        let run = run.env("MIRIFLAGS", FLAGS).env("CARGO_TARGET_DIR", context.target("miri"));
        run.named(format!("Miri: {package}")).run()
    };
    miri("millrace-packet", &["--lib", "--", "frame", "copy"])?;
    miri("millrace-roles", &["--lib", "--tests"])?;
    miri("millrace-virtqueue", &["--lib", "--test", "rings"])
}
