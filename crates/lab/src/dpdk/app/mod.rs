//! Traffic applications on DPDK: a program in C that takes the place of the load generator's own applications, as a load that
//! owes nothing to Millrace. Its sources are part of this crate; the compiler and DPDK's library are the machine's.

mod build;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use build::{Unavailable, available};

use super::Pages;

/// The program, built.
#[derive(Debug, Clone)]
pub struct App {
    program: PathBuf,
}

impl App {
    /// Builds the program, unless `cache` has it from an earlier time.
    pub fn build(cache: &Path) -> Result<App, Unavailable> {
        build::program(cache).map(|program| App { program })
    }

    /// Returns the path of the program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the command that starts it with these arguments: those of a traffic application, of the technique
    /// `virtio-user-dpdk`. It has `megabytes` of memory in pages of this kind; its files are in `directory`, which no other DPDK
    /// program may use.
    pub fn command<A: AsRef<OsStr>>(
        &self,
        pages: Pages,
        megabytes: u64,
        directory: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--no-pci", "--no-telemetry"]).args(pages.arguments()).args(["-m", &megabytes.to_string()]);
        command.arg("--").args(arguments).env("RUNTIME_DIRECTORY", directory);
        command
    }
}
