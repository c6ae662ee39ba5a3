//! Debian's packages of a release that this machine does not use, from the mirror that it uses. Apt downloads them and verifies their
//! signatures, in directories of its own here, and they are unpacked, never installed.

mod database;

use crate::command::{Context, Run};
use crate::failure::Failure;
use std::fs;
use std::path::{Path, PathBuf};

/// Apt for another release, and perhaps another processor, than those of this machine.
pub struct Debian<'c> {
    context: &'c Context,
    place: PathBuf,
    options: Vec<String>,
}

impl<'c> Debian<'c> {
    /// Reads the lists of packages of a release, for this machine's architecture.
    pub fn of_this_processor(context: &'c Context, suite: &str, place: &Path) -> Result<Self, Failure> {
        let architecture = context.command("dpkg").args(&["--print-architecture"]).output()?;
        Debian::new(context, suite, architecture.trim(), place)
    }

    /// Reads the lists of packages of a release for an architecture. `place` keeps them, and the packages.
    pub fn new(context: &'c Context, suite: &str, architecture: &str, place: &Path) -> Result<Self, Failure> {
        for part in ["lists/partial", "archives/partial", "kernels"] {
            make(&place.join(part))?;
        }
        let source = format!("deb [arch={architecture}] {} {suite} main\n", mirror(context)?);
        write(&place.join("sources.list"), &source)?;
        // None is installed: all that one depends on is downloaded, too. Apt's lock files are beside it.
        write(&place.join("status"), "")?;
        let path = |name: &str| place.join(name).display().to_string();
        let settings = [
            ("APT::Architecture", architecture.into()),
            ("APT::Architectures", architecture.into()),
            ("Acquire::Languages", "none".into()),
            ("Dir::Etc::SourceList", path("sources.list")),
            ("Dir::Etc::SourceParts", "/dev/null".into()),
            ("Dir::State::Lists", path("lists")),
            ("Dir::State::status", path("status")),
            ("Dir::Cache", path("")),
        ];
        let options = settings.iter().map(|(key, value)| format!("-o{key}={value}")).collect();
        let debian = Debian { context, place: place.to_owned(), options };
        debian.apt("apt-get").args(&["-qq", "update"]).named(format!("lists of packages of {suite}")).run()?;
        Ok(debian)
    }

    fn apt(&self, program: &str) -> Run<'c> {
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        self.context.command(program).args(&options)
    }

    /// Returns the newest version of a package, without Debian's revision.
    pub fn version(&self, package: &str) -> Result<String, Failure> {
        let shown = self.apt("apt-cache").args(&["show", "--no-all-versions", package]).output()?;
        let version = shown.lines().find_map(|line| line.strip_prefix("Version: ")?.split('-').next());
        version.map(str::to_owned).ok_or_else(|| format!("apt knows no version of {package}").into())
    }

    /// Returns a directory with the files of these packages and of all that they depend on.
    pub fn files(&self, packages: &[&str]) -> Result<PathBuf, Failure> {
        let install = ["-qq", "--yes", "--download-only", "--no-install-recommends", "install"];
        self.apt("apt-get").args(&install).args(packages).named("download of packages").run()?;
        // Apt removes packages that newer ones have replaced.
        self.apt("apt-get").args(&["-qq", "autoclean"]).output()?;
        let archives = packages_in(&self.place.join("archives"))?;
        let (tree, done) = (self.place.join("files"), self.place.join("unpacked"));
        let names = archives.iter().map(|path| format!("{}\n", path.display())).collect::<String>();
        if fs::read_to_string(&done).is_ok_and(|unpacked| unpacked == names) {
            return Ok(tree);
        }
        if tree.exists() {
            fs::remove_dir_all(&tree).map_err(|e| format!("cannot remove {}: {e}", tree.display()))?;
        }
        println!("unpacking {} packages", archives.len());
        archives.iter().try_for_each(|archive| self.unpack(archive, &tree))?;
        write(&done, &names)?;
        Ok(tree)
    }

    /// Returns a directory with the kernel that the package `newest` depends on: `boot` and its modules.
    pub fn kernel(&self, newest: &str) -> Result<PathBuf, Failure> {
        let depends = self.apt("apt-cache").args(&["depends", newest]).output()?;
        let kernel = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
        let kernel = kernel.ok_or_else(|| format!("there is no package {newest}"))?;
        let kernels = self.place.join("kernels");
        let tree = kernels.join(kernel);
        if !tree.exists() {
            // Without the packages that installing it would take.
            let download = self.apt("apt-get").inside(&kernels).args(&["-qq", "download", kernel]);
            download.named(format!("download of {kernel}")).run()?;
            self.unpack(&archive(&kernels, kernel)?, &tree)?;
        }
        Ok(tree)
    }

    /// Returns the version of the source of a package whose files [`Debian::files`] has returned.
    pub fn source_version(&self, package: &str) -> Result<String, Failure> {
        let archive = archive(&self.place.join("archives"), package)?.display().to_string();
        self.context.command("dpkg-deb").args(&["--show", "--showformat=${source:Version}", &archive]).output()
    }

    fn unpack(&self, package: &Path, tree: &Path) -> Result<(), Failure> {
        let paths = [package, tree].map(|path| path.display().to_string());
        self.context.command("dpkg").args(&["-x", &paths[0], &paths[1]]).output().map(drop)
    }
}

/// Lists the packages in a directory.
fn packages_in(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(directory).map_err(|e| format!("cannot list {}: {e}", directory.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut packages: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|end| end == "deb")).collect();
    packages.sort();
    Ok(packages)
}

/// Returns the archive of a package in a directory.
fn archive(directory: &Path, package: &str) -> Result<PathBuf, Failure> {
    let begins = format!("{package}_");
    let is_it = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begins));
    let found = packages_in(directory)?.into_iter().find(is_it);
    found.ok_or_else(|| format!("{package} was not downloaded").into())
}

/// Returns the release of Debian that this machine has.
pub fn release() -> Result<String, Failure> {
    let release = fs::read_to_string("/etc/os-release").map_err(|e| format!("/etc/os-release: {e}"))?;
    let suite = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    suite.map(str::to_owned).ok_or_else(|| "this is not a release of Debian".into())
}

/// Returns the Debian mirror that this machine uses.
pub fn mirror(context: &Context) -> Result<String, Failure> {
    let ask = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"];
    let found = context.command("apt-get").args(&ask).output()?;
    let first = found.lines().next().map(str::to_owned);
    first.ok_or_else(|| "apt has no package source of Debian; run `apt-get update`".into())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()).into())
}

/// Creates a directory, with those above it, if it is missing.
pub fn make(directory: &Path) -> Result<(), Failure> {
    fs::create_dir_all(directory).map_err(|e| format!("cannot create {}: {e}", directory.display()).into())
}
