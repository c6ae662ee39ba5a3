//! Debian packages, downloaded but not installed, also from suites that this machine does not use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::output_of;
use lab::{Error, Result};

/// Apt, with separate package lists for a suite that the machine does not use.
pub(super) struct Apt {
    options: Vec<String>,
    directory: PathBuf,
}

impl Apt {
    /// Prepares apt; `directory` holds its files, including packages.
    pub(super) fn new(suite: Option<&str>, directory: &Path) -> Result<Self> {
        let mut apt = Self { options: Vec::new(), directory: directory.to_owned() };
        if let Some(suite) = suite {
            let source = format!("deb {} {suite} main\n", mirror()?);
            let place = |name: &str| directory.join(name).display().to_string();
            for part in ["lists/partial", "archives/partial"] {
                fs::create_dir_all(place(part)).map_err(Error::io(format!("creating {}", place(part))))?;
            }
            fs::write(place("suite.list"), source).map_err(Error::io("writing a list of package sources"))?;
            let settings = [
                ("Dir::Etc::SourceList", place("suite.list")),
                ("Dir::Etc::SourceParts", "/dev/null".into()),
                ("Dir::State::Lists", place("lists")),
                ("Dir::Cache", place("")),
                ("Acquire::Languages", "none".into()),
            ];
            apt.options = settings.iter().map(|(key, value)| format!("-o{key}={value}")).collect();
            output_of(Command::new("apt-get").args(&apt.options).args(["-q", "update"]))?;
        }
        Ok(apt)
    }

    /// Returns the packages whose names match.
    pub(super) fn search(&self, names: &str) -> Result<Vec<String>> {
        let found = output_of(Command::new("apt-cache").args(&self.options).args(["search", "--names-only", names]))?;
        let found = String::from_utf8_lossy(&found).into_owned();
        Ok(found.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
    }

    /// Downloads a package and returns its file.
    pub(super) fn download(&self, package: &str) -> Result<PathBuf> {
        let mut command = Command::new("apt-get");
        output_of(command.args(&self.options).args(["-q", "download", package]).current_dir(&self.directory))?;
        let entries = fs::read_dir(&self.directory);
        let entries = entries.map_err(Error::io(format!("listing {}", self.directory.display())))?;
        let begins = format!("{package}_");
        let found = entries.flatten().find(|entry| entry.file_name().to_string_lossy().starts_with(&begins));
        found.map(|entry| entry.path()).ok_or_else(|| Error::malformed(package, "it was not downloaded"))
    }
}

fn mirror() -> Result<String> {
    let ask = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"];
    let found = output_of(Command::new("apt-get").args(ask))?;
    let found = String::from_utf8_lossy(&found).lines().next().map(str::to_owned);
    found.ok_or_else(|| Error::malformed("the package sources of apt", "none is Debian; run `apt-get update`"))
}
