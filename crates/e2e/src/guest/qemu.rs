//! The QEMU of a machine: the installed one, or a newer one for devices that it lacks.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::apt::Apt;
use super::kernel::{cache, lock};
use lab::output_of;
use lab::{Error, Result};

const PROGRAM: &str = "qemu-system-x86_64";

/// Packages of the program and of what it loads; the BIOS is the installed one.
const PACKAGES: [&str; 2] = ["qemu-system-x86", "qemu-system-data"];

/// A QEMU.
#[derive(Debug, Clone, Default)]
pub struct Qemu {
    /// Where its packages are unpacked, if it is not the installed one.
    tree: Option<PathBuf>,
}

impl Qemu {
    /// Returns that of the backports to Debian 12; the first call on a machine downloads it with `apt-get`, without installing it.
    pub fn prepare_backported() -> Result<Self> {
        let cache = cache("qemu")?;
        let _lock = lock(&cache)?;
        let tree = cache.join("tree");
        if !tree.exists() {
            let work = tempfile::Builder::new().prefix("preparing-").tempdir_in(&cache);
            let work = work.map_err(Error::io(format!("creating a directory in {}", cache.display())))?;
            let apt = Apt::new(Some("bookworm-backports"), work.path())?;
            let made = work.path().join("tree");
            for package in PACKAGES {
                output_of(Command::new("dpkg").arg("-x").arg(apt.download(package)?).arg(&made))?;
            }
            fs::rename(&made, &tree).map_err(Error::io(format!("creating {}", tree.display())))?;
        }
        Ok(Self { tree: Some(tree) })
    }

    /// Returns a command that runs it.
    pub(super) fn command(&self) -> Command {
        let Some(tree) = &self.tree else { return Command::new(PROGRAM) };
        let mut command = Command::new(tree.join("usr/bin").join(PROGRAM));
        let firmware = ["qemu", "seabios"].map(|name| PathBuf::from("/usr/share").join(name));
        for directory in [tree.join("usr/share/qemu")].iter().chain(&firmware) {
            command.arg("-L").arg(directory);
        }
        command
    }
}
