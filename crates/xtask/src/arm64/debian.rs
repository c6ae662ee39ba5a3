//! Debian's packages for arm64, from the mirror that this machine uses. Apt downloads and verifies them, in directories of its own
//! here, and they are unpacked, never installed.

use crate::command::{Context, Run};
use crate::failure::Failure;
use std::fs;
use std::path::{Path, PathBuf};

/// The release that has kernels with pages of two sizes for arm64.
const SUITE: &str = "trixie";

/// Apt for another processor and release than those of this machine.
pub struct Debian<'c> {
    context: &'c Context,
    place: PathBuf,
    options: Vec<String>,
}

impl<'c> Debian<'c> {
    /// Reads the lists of packages. `place` keeps them, and the packages.
    pub fn new(context: &'c Context, place: &Path) -> Result<Self, Failure> {
        for part in ["lists/partial", "archives/partial"] {
            make(&place.join(part))?;
        }
        let path = |name: &str| place.join(name).display().to_string();
        let source = format!("deb [arch=arm64] {} {SUITE} main\n", mirror(context)?);
        fs::write(path("sources.list"), source).map_err(|e| format!("cannot write {}: {e}", path("sources.list")))?;
        let settings = [
            ("APT::Architecture", "arm64".into()),
            ("APT::Architectures", "arm64".into()),
            ("Acquire::Languages", "none".into()),
            ("Dir::Etc::SourceList", path("sources.list")),
            ("Dir::Etc::SourceParts", "/dev/null".into()),
            ("Dir::State::Lists", path("lists")),
            // None is installed: all that one depends on is downloaded, too.
            ("Dir::State::status", "/dev/null".into()),
            ("Dir::Cache", path("")),
        ];
        let options = settings.iter().map(|(key, value)| format!("-o{key}={value}")).collect();
        let debian = Debian { context, place: place.to_owned(), options };
        debian.apt("apt-get").args(&["-qq", "update"]).named("lists of packages for arm64").run()?;
        Ok(debian)
    }

    fn apt(&self, program: &str) -> Run<'c> {
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        self.context.command(program).inside(&self.place).args(&options)
    }

    /// Returns a directory with the kernel that the package `newest` depends on: `boot` and its modules.
    pub fn kernel(&self, newest: &str) -> Result<PathBuf, Failure> {
        let depends = self.apt("apt-cache").args(&["depends", newest]).output()?;
        let kernel = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
        let kernel = kernel.ok_or_else(|| format!("{SUITE} has no package {newest}"))?;
        // Without what installing it would take.
        self.apt("apt-get").args(&["-qq", "download", kernel]).named(format!("download of {kernel}")).run()?;
        let begins = format!("{kernel}_");
        self.unpack(&self.place, |name| name.starts_with(&begins), &self.place.join("kernels").join(kernel))
    }

    /// Returns a directory with the files of these packages and of all that they depend on.
    pub fn files(&self, packages: &[&str]) -> Result<PathBuf, Failure> {
        let install = ["-qq", "--yes", "--download-only", "--no-install-recommends", "install"];
        self.apt("apt-get").args(&install).args(packages).named("download of packages for arm64").run()?;
        // Without headers and libraries to link with, which are most of it.
        let to_link = |name: &str| name.starts_with("lib") && name.contains("-dev_");
        let runs = |name: &str| name.ends_with(".deb") && !to_link(name);
        self.unpack(&self.place.join("archives"), runs, &self.place.join("files"))
    }

    /// Unpacks the packages of a directory with such names into `tree`, if they are not yet; returns that.
    fn unpack(&self, directory: &Path, named: impl Fn(&str) -> bool, tree: &Path) -> Result<PathBuf, Failure> {
        let entries = fs::read_dir(directory).map_err(|e| format!("cannot list {}: {e}", directory.display()))?;
        for package in entries.flatten() {
            let name = package.file_name().to_string_lossy().into_owned();
            let done = tree.join("unpacked").join(&name);
            if named(&name) && !done.exists() {
                let paths = [&package.path(), tree].map(|path| path.display().to_string());
                make(&tree.join("unpacked"))?;
                self.context.command("dpkg").args(&["-x", &paths[0], &paths[1]]).output()?;
                fs::write(&done, "").map_err(|e| format!("cannot write {}: {e}", done.display()))?;
            }
        }
        Ok(tree.to_owned())
    }
}

/// Returns the Debian mirror that this machine uses.
fn mirror(context: &Context) -> Result<String, Failure> {
    let ask = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"];
    let found = context.command("apt-get").args(&ask).output()?;
    let first = found.lines().next().map(str::to_owned);
    first.ok_or_else(|| "apt has no package source of Debian; run `apt-get update`".into())
}

pub fn make(directory: &Path) -> Result<(), Failure> {
    fs::create_dir_all(directory).map_err(|e| format!("cannot create {}: {e}", directory.display()).into())
}
