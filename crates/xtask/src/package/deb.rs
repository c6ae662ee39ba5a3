//! Debian packages, made by cargo-deb from the lists in the manifests of `millrace` and `dpdk`.

use super::arch::Arch;
use super::maker::{Maker, word};
use super::{build, tree};
use crate::failure::Failure;
use std::path::PathBuf;

/// Makes the packages for a processor, and checks them with Debian's own checks.
pub fn make(maker: &Maker<'_>, arch: Arch) -> Result<Vec<PathBuf>, Failure> {
    let program = build::program(maker, arch.glibc())?;
    tree::make(maker, arch, &program)?;
    let mut packages = vec![millrace(maker, arch)?];
    if arch == Arch::of_this_machine()? {
        build::plugins(maker)?;
        packages.push(plugins(maker, arch)?);
    } else {
        println!("NOT MADE: millrace-dpdk for {}; it takes that machine's DPDK", arch.debian());
    }
    let names: Vec<_> = packages.iter().map(|path| word(path)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // The packages are not uploaded to Debian, so there is no report that asked for them.
    let strict = ["--allow-root", "--fail-on", "error,warning", "--suppress-tags", "initial-upload-closes-no-bugs"];
    maker.context.command("lintian").args(&strict).args(&names).run()?;
    Ok(packages)
}

/// Makes the package of the program in the tree.
pub fn millrace(maker: &Maker<'_>, arch: Arch) -> Result<PathBuf, Failure> {
    tree::changelog(maker, &maker.tree(), "millrace")?;
    // The variant is named after the processor.
    package(maker, arch, "millrace", &["--variant", arch.debian()])
}

/// Makes the package of the plugins for DPDK.
pub fn plugins(maker: &Maker<'_>, arch: Arch) -> Result<PathBuf, Failure> {
    tree::changelog(maker, &maker.dpdk(), "millrace-dpdk")?;
    package(maker, arch, "millrace-dpdk", &[])
}

/// Makes a package by the lists of a crate.
fn package(maker: &Maker<'_>, arch: Arch, name: &str, options: &[&str]) -> Result<PathBuf, Failure> {
    let output = maker.place(&format!("{name}_{}-{}_{}.deb", maker.version(), maker.revision, arch.debian()));
    // Programs are built and stripped already.
    let words = ["deb", "--no-build", "--no-strip", "--quiet", "--target", arch.glibc(), "--package", name];
    let place = ["--deb-revision", &maker.revision, "--output", &word(&output)];
    maker.context.cargo(&words).args(options).args(&place).env("SOURCE_DATE_EPOCH", &maker.time).run()?;
    Ok(output)
}
