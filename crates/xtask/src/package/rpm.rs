//! Packages for distributions with RPM, made by cargo-generate-rpm from the list in the manifest of `millrace`.

use super::arch::Arch;
use super::maker::{Maker, word};
use super::{build, tree};
use crate::failure::Failure;
use std::path::PathBuf;

/// Makes the package for a processor.
pub fn make(maker: &Maker<'_>, arch: Arch) -> Result<PathBuf, Failure> {
    let program = build::program(maker, arch.glibc())?;
    tree::make(maker, arch, &program)?;
    let output = maker.place(&format!("millrace-{}-{}.{}.rpm", maker.version(), maker.revision, arch.rust()));
    let (place, release) = (word(&output), format!("release = \"{}\"", maker.revision));
    let words = ["generate-rpm", "--package", "crates/millrace", "--target", arch.glibc()];
    // It reads which libraries the program needs, for any processor; the built-in way runs it.
    let options = ["--auto-req", "find-requires", "--set-metadata", &release, "--output", &place];
    maker.context.cargo(&words).args(&options).env("SOURCE_DATE_EPOCH", &maker.time).run()?;
    Ok(output)
}
