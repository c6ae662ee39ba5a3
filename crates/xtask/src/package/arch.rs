//! Processors that packages are for, and their names.

use crate::failure::Failure;
use crate::platforms::{ARM64, ARM64_MUSL, MUSL};
use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Arch {
    Amd64,
    Arm64,
}

impl Arch {
    pub fn of_this_machine() -> Result<Arch, Failure> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(Arch::Amd64),
            "aarch64" => Ok(Arch::Arm64),
            other => Err(format!("packages are for amd64 and arm64, and this machine is {other}").into()),
        }
    }

    /// Returns its name in Debian, in Go and in images.
    pub fn debian(self) -> &'static str {
        match self {
            Arch::Amd64 => "amd64",
            Arch::Arm64 => "arm64",
        }
    }

    /// Returns its name in the kernel, in Rust and in RPM.
    pub fn rust(self) -> &'static str {
        match self {
            Arch::Amd64 => "x86_64",
            Arch::Arm64 => "aarch64",
        }
    }

    /// Returns Rust's target with the GNU C library, which loads the plugin for DPDK.
    pub fn glibc(self) -> &'static str {
        match self {
            Arch::Amd64 => "x86_64-unknown-linux-gnu",
            Arch::Arm64 => ARM64,
        }
    }

    /// Returns Rust's target of programs that need no library.
    pub fn musl(self) -> &'static str {
        match self {
            Arch::Amd64 => MUSL,
            Arch::Arm64 => ARM64_MUSL,
        }
    }

    /// Returns Debian's name of its directories of libraries.
    pub fn multiarch(self) -> String {
        format!("{}-linux-gnu", self.rust())
    }

    /// Returns the variable that names Cargo's linker for the GNU C library.
    pub fn linker(self) -> String {
        linker(self.glibc())
    }

    /// Returns a binary tool for it, such as `strip`.
    pub fn tool(self, name: &str) -> String {
        match Arch::of_this_machine() {
            Ok(here) if here == self => name.to_owned(),
            _ => format!("{}-linux-gnu-{name}", self.rust()),
        }
    }
}

/// Returns the variable that names Cargo's linker for one of Rust's targets.
pub fn linker(target: &str) -> String {
    format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"))
}
