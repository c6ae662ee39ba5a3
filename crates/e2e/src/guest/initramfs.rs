//! The guest's file system: busybox, the modules and the agent.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Kernel;
use super::cpio::Archive;
use lab::output_of;
use lab::{Error, Result};

const BUSYBOX: &str = "/bin/busybox";
const INIT: &str = include_str!("init.sh");
const AGENT: &str = include_str!("agent.sh");

/// Builds an initramfs with the modules of `kernel` and these programs and files of the host. It is not compressed: the guest
/// reads it only once, and slowly.
pub(super) fn build(kernel: &Kernel, programs: &[PathBuf], files: &[PathBuf]) -> Result<Vec<u8>> {
    let applets = output_of(Command::new(BUSYBOX).arg("--list"))?;
    let applets = String::from_utf8_lossy(&applets).into_owned();
    let mut archive = Archive::default();
    for directory in ["bin", "dev", "files", "modules", "proc", "sys", "tmp"] {
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
    add_programs(&mut archive, programs)?;
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        archive.executable(&format!("files/{name}"), &read(file)?);
    }
    Ok(archive.finish())
}

/// Adds programs, stripped of debugging information, and the libraries that they load.
fn add_programs(archive: &mut Archive, programs: &[PathBuf]) -> Result<()> {
    let mut libraries = BTreeSet::new();
    for program in programs {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let stripped = tempfile::NamedTempFile::new().map_err(Error::io("creating a temporary file"))?;
        output_of(Command::new("strip").arg("-o").arg(stripped.path()).arg(program))?;
        archive.executable(&format!("bin/{name}"), &read(stripped.path())?);
        let loads = output_of(Command::new("ldd").arg(program))?;
        let loads = String::from_utf8_lossy(&loads).into_owned();
        libraries.extend(loads.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned));
    }
    let mut directories = BTreeSet::new();
    for library in &libraries {
        directories.extend(Path::new(library).ancestors().skip(1).map(Path::to_owned));
    }
    for directory in directories.iter().filter_map(|directory| directory.to_str()?.strip_prefix('/')) {
        if !directory.is_empty() {
            archive.directory(directory);
        }
    }
    libraries.iter().try_for_each(|library| {
        archive.executable(&library[1..], &read(library.as_ref())?);
        Ok(())
    })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(Error::io(format!("reading {}", path.display())))
}
