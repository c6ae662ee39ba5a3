//! The guest's file system: busybox, the modules and the agent.

use std::fs;
use std::process::Command;

use super::Kernel;
use super::cpio::Archive;
use crate::error::output_of;
use crate::{Error, Result};

const BUSYBOX: &str = "/bin/busybox";
const INIT: &str = include_str!("init.sh");
const AGENT: &str = include_str!("agent.sh");

/// An initramfs with the modules of `kernel`, uncompressed: the guest has it to read only once, and slowly.
pub(super) fn build(kernel: &Kernel) -> Result<Vec<u8>> {
    let applets = output_of(Command::new(BUSYBOX).arg("--list"))?;
    let applets = String::from_utf8_lossy(&applets).into_owned();
    let mut archive = Archive::default();
    for directory in ["bin", "dev", "modules", "proc", "sys", "tmp"] {
        archive.directory(directory);
    }
    archive.executable("bin/busybox", &read(BUSYBOX.as_ref())?);
    for applet in applets.lines().filter(|&applet| applet != "busybox") {
        archive.symlink(&format!("bin/{applet}"), "busybox");
    }
    archive.symlink("sbin", "bin");
    let mut order = String::new();
    for (name, path) in kernel.modules() {
        archive.executable(&format!("modules/{name}.ko"), &read(path)?);
        order.push_str(name);
        order.push('\n');
    }
    archive.executable("modules/order", order.as_bytes());
    archive.executable("init", INIT.as_bytes());
    archive.executable("agent", AGENT.as_bytes());
    Ok(archive.finish())
}

fn read(path: &std::path::Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(Error::io(format!("reading {}", path.display())))
}
