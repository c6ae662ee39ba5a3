//! The files of a machine: programs with the libraries that they load, modules of the kernel, and what runs first.

use crate::command::Context;
use crate::debian::make;
use crate::failure::Failure;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Where Debian has libraries, and their loader.
const LIBRARIES: &str = "usr/lib/aarch64-linux-gnu";
const LOADER: &str = "ld-linux-aarch64.so.1";

/// A tree of files that becomes an initramfs.
pub struct Files<'c> {
    context: &'c Context,
    packages: PathBuf,
    root: PathBuf,
}

impl<'c> Files<'c> {
    /// Begins an empty tree at `root`; files of Debian come from `packages`.
    pub fn new(context: &'c Context, packages: PathBuf, root: PathBuf) -> Result<Self, Failure> {
        if root.exists() {
            fs::remove_dir_all(&root).map_err(|e| format!("cannot empty {}: {e}", root.display()))?;
        }
        for directory in ["dev", "modules", "proc", "programs", "run", "sys", "tmp", "usr/lib"] {
            make(&root.join(directory))?;
        }
        let link = |to: &str, name: &str| {
            symlink(to, root.join(name)).map_err(|e| format!("cannot make the link {name}: {e}"))
        };
        link("usr/lib", "lib")?;
        link(&format!("aarch64-linux-gnu/{LOADER}"), &format!("usr/lib/{LOADER}"))?;
        Ok(Files { context, packages, root })
    }

    /// Adds a file of Debian, at its own place, and the libraries that it loads.
    pub fn debian(&self, path: &str) -> Result<(), Failure> {
        if self.root.join(path).exists() {
            return Ok(());
        }
        let from = self.packages.join(path);
        self.copy(&from, path)?;
        let dynamic =
            self.context.command("readelf").args(&["--dynamic", "--wide", &from.display().to_string()]).output()?;
        let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
        let mut names = needed.filter_map(|line| line.split_once('[')?.1.strip_suffix(']'));
        names.try_for_each(|name| self.debian(&format!("{LIBRARIES}/{name}")))
    }

    /// Adds files of Debian with these names, wherever they are, and the libraries that they load.
    pub fn debian_named(&self, names: &[&str]) -> Result<(), Failure> {
        names.iter().try_for_each(|name| {
            let path = self.find(&self.packages, name)?;
            let path = path.strip_prefix(&self.packages).expect("it was found there");
            self.debian(&path.to_string_lossy())
        })
    }

    /// Returns the first file of this name in a tree.
    fn find(&self, tree: &Path, name: &str) -> Result<PathBuf, Failure> {
        let found =
            self.context.command("find").args(&[&tree.display().to_string(), "-type", "f", "-name", name]).output()?;
        found.lines().next().map(PathBuf::from).ok_or_else(|| format!("{} has no {name}", tree.display()).into())
    }

    /// Adds a program that needs no libraries.
    pub fn program(&self, from: &Path, name: &str) -> Result<(), Failure> {
        self.copy(from, &format!("programs/{name}"))
    }

    /// Adds modules of a kernel. They are loaded in the order of their names.
    pub fn modules(&self, kernel: &Path, modules: &[&str]) -> Result<(), Failure> {
        for module in modules {
            let path = self.find(&kernel.join("usr/lib/modules"), &format!("{module}.ko.xz"))?;
            let packed = format!("modules/{module}.ko.xz");
            self.copy(&path, &packed)?;
            self.context.command("xz").args(&["--decompress", &packed]).inside(&self.root).output()?;
        }
        Ok(())
    }

    /// Adds a text, which may be a script.
    pub fn text(&self, path: &str, text: &str) -> Result<(), Failure> {
        let to = self.root.join(path);
        fs::write(&to, text)
            .and_then(|()| fs::set_permissions(&to, executable()))
            .map_err(|e| format!("cannot write {}: {e}", to.display()).into())
    }

    /// Packs the tree into `archive`, in the format of an initramfs.
    pub fn pack(&self, archive: &Path) -> Result<(), Failure> {
        let pack = format!("find . | cpio --create --format=newc --owner=0:0 --quiet >'{}'", archive.display());
        self.context.command("sh").args(&["-c", &pack]).inside(&self.root).output().map(drop)
    }

    fn copy(&self, from: &Path, to: &str) -> Result<(), Failure> {
        let to = self.root.join(to);
        make(to.parent().unwrap_or(&self.root))?;
        fs::copy(from, &to).map(drop).map_err(|e| format!("cannot copy {}: {e}", from.display()).into())
    }
}

fn executable() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o755)
}
