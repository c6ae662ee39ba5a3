//! Debian packages, made by cargo-deb from the lists in the manifests of `millrace`, `testbed` and `dpdk`.

use super::arch::Arch;
use super::content::{Content, MILLRACE, PLUGINS, TOOLS};
use super::libraries::Libraries;
use super::maker::{Maker, word};
use super::{build, loading, tree};
use crate::failure::Failure;
use std::path::PathBuf;

/// Makes the packages for a processor, and checks them with Debian's own checks.
pub fn make(maker: &Maker<'_>, arch: Arch) -> Result<Vec<PathBuf>, Failure> {
    let libraries = Libraries::of(maker, arch)?;
    for content in [&MILLRACE, &TOOLS] {
        let built = build::programs(maker, content, arch.glibc())?;
        tree::make(maker, content, arch, &built, &maker.tree(content.package))?;
    }
    build::plugins(maker, arch, &libraries)?;
    let packages = [millrace(maker, &libraries)?, tools(maker, &libraries)?, plugins(maker, &libraries)?];
    let names: Vec<_> = packages.iter().map(|path| word(path)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // The packages are not uploaded to Debian, so there is no report that asked for them.
    let strict = ["--allow-root", "--fail-on", "error,warning", "--suppress-tags", "initial-upload-closes-no-bugs"];
    maker.context.command("lintian").args(&strict).args(&names).run()?;
    loading::check(maker, &libraries, &packages)?;
    Ok(packages.into())
}

/// Makes the package of the switch in the tree.
pub fn millrace(maker: &Maker<'_>, libraries: &Libraries) -> Result<PathBuf, Failure> {
    // The variant is named after the processor.
    programs(maker, libraries, &MILLRACE, &["--variant", libraries.arch().debian()])
}

/// Makes the package of the testbed and of network functions in the tree.
pub fn tools(maker: &Maker<'_>, libraries: &Libraries) -> Result<PathBuf, Failure> {
    programs(maker, libraries, &TOOLS, &[])
}

fn programs(maker: &Maker<'_>, libraries: &Libraries, content: &Content, options: &[&str]) -> Result<PathBuf, Failure> {
    package(maker, libraries, content.package, content.crates[0], options)
}

/// Makes the package of the plugins for DPDK.
pub fn plugins(maker: &Maker<'_>, libraries: &Libraries) -> Result<PathBuf, Failure> {
    package(maker, libraries, PLUGINS, PLUGINS, &[])
}

/// Makes a package by the lists of a crate.
fn package(
    maker: &Maker<'_>,
    libraries: &Libraries,
    name: &str,
    list: &str,
    options: &[&str],
) -> Result<PathBuf, Failure> {
    tree::changelog(maker, name)?;
    let arch = libraries.arch();
    let output = maker.place(&format!("{name}_{}-{}_{}.deb", maker.version(), maker.revision, arch.debian()));
    // Programs are built and stripped already.
    let words = ["deb", "--no-build", "--no-strip", "--quiet", "--target", arch.glibc(), "--package", list];
    let place = ["--deb-revision", &maker.revision, "--output", &word(&output)];
    let cargo = maker.context.cargo(&words).args(options).args(&place).env("SOURCE_DATE_EPOCH", &maker.time);
    libraries.package(maker, cargo)?;
    Ok(output)
}
