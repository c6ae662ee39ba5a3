//! The programs of packages: built without this machine's paths, for another processor if need be.

use super::arch::{Arch, linker};
use super::content::{Content, PLUGINS};
use super::libraries::Libraries;
use super::maker::{Maker, word};
use crate::failure::Failure;
use std::fs;
use std::path::PathBuf;

/// Builds the programs of a package for one of Rust's targets, and returns their directory.
pub fn programs(maker: &Maker<'_>, content: &Content, target: &str) -> Result<PathBuf, Failure> {
    let place = maker.place("build");
    let build = maker.context.cargo(&["build", "--release", "--locked", "--bins", "--target", target]);
    let build = content.crates.iter().fold(build, |build, name| build.args(&["--package", name]));
    let build = build.env("CARGO_TARGET_DIR", &place).env("RUSTFLAGS", flags(maker));
    let build = match target.split('-').next() {
        Some(processor) if processor != std::env::consts::ARCH => {
            build.env(&linker(target), format!("{processor}-linux-gnu-gcc"))
        }
        _ => build,
    };
    build.named(format!("build of {} for {target}", content.package)).run()?;
    Ok(place.join(target).join("release"))
}

/// Builds the plugins for DPDK, into the tree of their package.
pub fn plugins(maker: &Maker<'_>, arch: Arch, libraries: &Libraries) -> Result<(), Failure> {
    let (place, to) = (maker.place("build"), maker.tree(PLUGINS));
    let programs = place.join(libraries.built());
    fs::create_dir_all(&to).map_err(|e| format!("cannot create {}: {e}", to.display()))?;
    for (directory, plugin) in [("dpdk/port", "libmillrace_dpdk.so"), ("dpdk/net_paflow", "librte_net_paflow.so")] {
        let make = maker.context.command("make").args(&["-C", directory, "PROFILE=release"]);
        let make = libraries.build(make.env("CARGO_TARGET_DIR", &place).env("RUSTFLAGS", flags(maker)));
        make.named(format!("build of {plugin} for {}", arch.debian())).run()?;
        let (built, installed) = (word(&programs.join(plugin)), word(&to.join(plugin)));
        let strip = ["--strip-unneeded", "--remove-section=.comment", "-o", &installed, &built];
        maker.context.command(&arch.tool("strip")).args(&strip).output()?;
    }
    Ok(())
}

/// Returns flags of the compiler that keep the names of this machine's directories out of programs: they differ from one build to
/// the other.
fn flags(maker: &Maker<'_>) -> String {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let registries = cargo.and_then(|cargo| fs::read_dir(cargo.join("registry/src")).ok());
    let mut directories = vec![(maker.context.root.clone(), "/usr/src/millrace")];
    directories.extend(registries.into_iter().flatten().flatten().map(|entry| (entry.path(), "/usr/src/crates")));
    let flag = |(from, to): &(PathBuf, &str)| format!("--remap-path-prefix={}={to}", from.display());
    directories.iter().map(flag).collect::<Vec<_>>().join(" ")
}
