//! The guest's file system: busybox, the modules and the agent.

use std::borrow::Cow;
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

/// Programs, libraries and files of the host that a guest gets.
#[derive(Debug, Clone, Default)]
pub(super) struct Contents {
    /// Programs, in `/bin`, stripped of debugging information.
    pub programs: Vec<PathBuf>,
    /// Libraries that programs open by themselves.
    pub libraries: Vec<PathBuf>,
    /// Other files, in `/files`.
    pub files: Vec<PathBuf>,
}

/// Builds an initramfs with the modules of `kernel` and these contents. It is not compressed: the guest reads it only once, and
/// slowly.
pub(super) fn build(kernel: &Kernel, contents: &Contents) -> Result<Vec<u8>> {
    let applets = output_of(Command::new(BUSYBOX).arg("--list"))?;
    let applets = String::from_utf8_lossy(&applets).into_owned();
    let mut archive = Archive::default();
    // The first one only for its permissions: others may write to the kernel's, and DPDK loads no drivers below that.
    for directory in [".", "bin", "dev", "etc", "files", "modules", "proc", "sys", "tmp"] {
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
    for program in &contents.programs {
        archive.executable(&format!("bin/{}", name_of(program)), &stripped(program)?);
    }
    for file in &contents.files {
        archive.executable(&format!("files/{}", name_of(file)), &read(file)?);
    }
    add_libraries(&mut archive, contents)?;
    Ok(archive.finish())
}

fn name_of(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// Returns a program without its debugging information.
fn stripped(program: &Path) -> Result<Vec<u8>> {
    let stripped = tempfile::NamedTempFile::new().map_err(Error::io("creating a temporary file"))?;
    output_of(Command::new("strip").arg("-o").arg(stripped.path()).arg(program))?;
    read(stripped.path())
}

/// Adds libraries at their paths of the host, with those that they and the programs load, and the host's table of where each is.
fn add_libraries(archive: &mut Archive, contents: &Contents) -> Result<()> {
    let mut libraries = BTreeSet::from_iter(contents.libraries.iter().cloned());
    for user in contents.programs.iter().chain(&contents.libraries) {
        let loads = output_of(Command::new("ldd").arg(user))?;
        let loads = String::from_utf8_lossy(&loads).into_owned();
        libraries.extend(loads.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from));
    }
    // A library with several names must be one file, or it is loaded once for each.
    let (mut files, mut links) = (BTreeSet::new(), BTreeSet::new());
    for library in &libraries {
        let file = resolved(library)?;
        let named = resolved(library.parent().unwrap_or(library))?.join(&*name_of(library));
        if named != file {
            links.insert((named, file.clone()));
        }
        files.insert(file);
    }
    let paths = files.iter().chain(links.iter().map(|(named, _)| named));
    let directories: BTreeSet<_> = paths.flat_map(|path| path.ancestors().skip(1)).collect();
    for directory in directories.into_iter().filter(|directory| directory.parent().is_some()) {
        archive.directory(inside(directory)?);
    }
    // As in Debian.
    for directory in ["lib", "lib64"] {
        archive.symlink(directory, &format!("usr/{directory}"));
    }
    for file in &files {
        archive.executable(inside(file)?, &read(file)?);
    }
    for (named, file) in &links {
        archive.symlink(inside(named)?, &file.to_string_lossy());
    }
    archive.executable("etc/ld.so.cache", &read("/etc/ld.so.cache".as_ref())?);
    Ok(())
}

/// Returns the path of a file in the archive.
fn inside(path: &Path) -> Result<&str> {
    let inside = path.to_str().and_then(|path| path.strip_prefix('/'));
    inside.ok_or_else(|| Error::malformed(path.display().to_string(), "not an absolute path of UTF-8"))
}

fn resolved(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(Error::io(format!("looking for {}", path.display())))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(Error::io(format!("reading {}", path.display())))
}
