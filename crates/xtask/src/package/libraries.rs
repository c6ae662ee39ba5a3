//! The libraries that packages for a processor are built with, and depend on: those of this machine, or, for another processor, those of
//! its release of Debian, which are unpacked and never installed.

use super::arch::Arch;
use super::maker::{Maker, word};
use crate::command::Run;
use crate::debian::{Debian, make, release};
use crate::failure::Failure;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Unpacked packages: DPDK's headers, with all that they depend on, and what brings the links between directories.
const PACKAGES: [&str; 2] = ["libdpdk-dev", "base-files"];

/// Libraries for a processor.
pub struct Libraries {
    arch: Arch,
    /// None for this machine's processor.
    unpacked: Option<Unpacked>,
}

struct Unpacked {
    tree: PathBuf,
    /// Of dpkg, about the tree.
    database: PathBuf,
    /// The version of DPDK's source package.
    dpdk: String,
}

impl Libraries {
    /// Finds the libraries for a processor, and downloads them if need be.
    pub fn of(maker: &Maker<'_>, arch: Arch) -> Result<Libraries, Failure> {
        if arch == Arch::of_this_machine()? {
            return Ok(Libraries { arch, unpacked: None });
        }
        let place = maker.place(&format!("libraries-{}", arch.debian()));
        let debian = Debian::new(maker.context, &release()?, arch.debian(), &place)?;
        let tree = debian.files(&PACKAGES)?;
        let (database, dpdk) = (debian.database()?, debian.source_version(PACKAGES[0])?);
        Ok(Libraries { arch, unpacked: Some(Unpacked { tree, database, dpdk }) })
    }

    /// Returns the processor.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Returns the directory below that of a build by make with [`Libraries::build`].
    pub fn built(&self) -> PathBuf {
        let processor = self.unpacked.as_ref().map_or("", |_| self.arch.glibc());
        Path::new(processor).join("release")
    }

    /// Lets a build by make find them.
    pub fn build<'c>(&self, run: Run<'c>) -> Run<'c> {
        let Some(Unpacked { tree, dpdk, .. }) = &self.unpacked else { return run };
        let (target, compiler) = (self.arch.glibc(), self.arch.tool("gcc"));
        let descriptions = [&*format!("usr/lib/{}/pkgconfig", self.arch.multiarch()), "usr/share/pkgconfig"];
        let descriptions = descriptions.map(|directory| word(&tree.join(directory))).join(":");
        run.env("CC", format!("{compiler} --sysroot={}", tree.display()))
            .env("PKG_CONFIG_SYSROOT_DIR", tree)
            .env("PKG_CONFIG_LIBDIR", descriptions)
            .env("LIBDPDK_VERSION", dpdk)
            .env("CARGO_BUILD_TARGET", target)
            .env(&self.arch.linker(), compiler)
    }

    /// Runs cargo-deb. It asks `dpkg-shlibdeps` for dependencies, looks for libraries of another processor at one place only, and goes
    /// on if that program fails: so it gets another one of this name, which knows better where they are, and whose failure counts.
    pub fn package(&self, maker: &Maker<'_>, run: Run<'_>) -> Result<(), Failure> {
        let place = maker.place("shlibdeps");
        make(&place)?;
        let (program, failures) = (place.join("dpkg-shlibdeps"), place.join("failures"));
        let options = self.unpacked.as_ref().map_or(String::new(), |Unpacked { tree, database, .. }| {
            let directories = ["usr/lib", "lib"].map(|lib| tree.join(lib).join(self.arch.multiarch()));
            let directories = directories.map(|directory| format!("'-l{}'", directory.display())).join(" ");
            format!("'--admindir={}' {directories}", database.display())
        });
        let script = format!(
            "#!/bin/sh\n/usr/bin/dpkg-shlibdeps {options} \"$@\" && exit\necho \"$*\" >>'{}'\nexit 1\n",
            failures.display()
        );
        fs::write(&program, script)
            .and_then(|()| fs::set_permissions(&program, fs::Permissions::from_mode(0o755)))
            .and_then(|()| fs::write(&failures, ""))
            .map_err(|e| format!("cannot write {}: {e}", program.display()))?;
        run.first_in_path(&place).run()?;
        match fs::read_to_string(&failures) {
            Ok(failed) if failed.is_empty() => Ok(()),
            failed => Err(format!("dpkg-shlibdeps found no dependencies: {failed:?}").into()),
        }
    }

    /// Adds a program to a command line, which an emulator runs if it is for another processor. It loads libraries from this directory,
    /// and then from the tree.
    pub fn emulate<'c>(&self, before: Run<'c>, directory: &str, program: &str) -> Run<'c> {
        let directory = format!("LD_LIBRARY_PATH={directory}");
        match &self.unpacked {
            None => before.args(&["env", &directory, program]),
            Some(Unpacked { tree, .. }) => {
                let emulator = format!("qemu-{}", self.arch.rust());
                before.args(&[&emulator, "-E", &directory, "-L", &word(tree), program])
            }
        }
    }
}
