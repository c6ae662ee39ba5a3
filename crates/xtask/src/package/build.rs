//! The programs of packages: built without this machine's paths, for another processor if need be.

use super::arch::Arch;
use super::maker::{Maker, word};
use crate::failure::Failure;
use std::fs;
use std::path::PathBuf;

/// Builds `millrace` for one of Rust's targets, and returns its path.
pub fn program(maker: &Maker<'_>, target: &str) -> Result<PathBuf, Failure> {
    let place = maker.place("build");
    let build = maker.context.cargo(&["build", "--release", "--locked", "--package=millrace", "--target", target]);
    let build = build.env("CARGO_TARGET_DIR", &place).env("RUSTFLAGS", flags(maker));
    let build = match target.split('-').next() {
        Some(processor) if processor != std::env::consts::ARCH => {
            let variable = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"));
            build.env(&variable, format!("{processor}-linux-gnu-gcc"))
        }
        _ => build,
    };
    build.named(format!("build for {target}")).run()?;
    Ok(place.join(target).join("release/millrace"))
}

/// Builds the plugins for the DPDK of this machine, into the tree of their package.
pub fn plugins(maker: &Maker<'_>) -> Result<(), Failure> {
    let (place, to) = (maker.place("build"), maker.dpdk());
    fs::create_dir_all(&to).map_err(|e| format!("cannot create {}: {e}", to.display()))?;
    for (directory, plugin) in [("dpdk/port", "libmillrace_dpdk.so"), ("dpdk/net_paflow", "librte_net_paflow.so")] {
        let make = maker.context.command("make").args(&["-C", directory, "PROFILE=release"]);
        let make = make.env("CARGO_TARGET_DIR", &place).env("RUSTFLAGS", flags(maker));
        make.named(format!("build of {plugin}")).run()?;
        let (built, installed) = (word(&place.join("release").join(plugin)), word(&to.join(plugin)));
        let strip = ["--strip-unneeded", "--remove-section=.comment", "-o", &installed, &built];
        maker.context.command(&Arch::of_this_machine()?.tool("strip")).args(&strip).output()?;
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
