//! Packages for distributions with RPM, made by cargo-generate-rpm from the lists in the manifests of `millrace` and `testbed`.

use super::arch::Arch;
use super::content::{Content, MILLRACE, TOOLS};
use super::maker::{Maker, word};
use super::{build, tree};
use crate::failure::Failure;
use std::path::PathBuf;

/// Makes the packages for a processor.
pub fn make(maker: &Maker<'_>, arch: Arch) -> Result<Vec<PathBuf>, Failure> {
    [&MILLRACE, &TOOLS].into_iter().map(|content| package(maker, content, arch)).collect()
}

fn package(maker: &Maker<'_>, content: &Content, arch: Arch) -> Result<PathBuf, Failure> {
    let built = build::programs(maker, content, arch.glibc())?;
    tree::make(maker, content, arch, &built, &maker.tree(content.package))?;
    let name = format!("{}-{}-{}.{}.rpm", content.package, maker.version(), maker.revision, arch.rust());
    let output = maker.place(&name);
    let (place, release) = (word(&output), format!("release = \"{}\"", maker.revision));
    // The directories of crates are their names without the project's.
    let list = content.crates[0];
    let list = format!("crates/{}", list.strip_prefix("millrace-").unwrap_or(list));
    let words = ["generate-rpm", "--package", &list, "--target", arch.glibc()];
    // It reads which libraries the program needs, for any processor; the built-in way runs it.
    let options = ["--auto-req", "find-requires", "--set-metadata", &release, "--output", &place];
    maker.context.cargo(&words).args(&options).env("SOURCE_DATE_EPOCH", &maker.time).run()?;
    Ok(output)
}
