//! Parts that all packages of a run share.

use crate::command::Context;
use std::path::{Path, PathBuf};

/// One commit, to be packaged.
pub struct Maker<'c> {
    pub context: &'c Context,
    /// Time of the commit, in seconds since 1970: files are as old, so that equal sources make equal packages.
    pub time: String,
    /// Revision of the packaging, which follows the version.
    pub revision: String,
}

impl Maker<'_> {
    /// Returns a place for packages, and for what they are made of.
    pub fn place(&self, name: &str) -> PathBuf {
        self.context.target("package").join(name)
    }

    /// Returns where the made files of a package are.
    pub fn tree(&self, package: &str) -> PathBuf {
        self.place("trees").join(package)
    }

    pub fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}

/// Returns a path as a word of a command line.
pub fn word(path: &Path) -> String {
    path.display().to_string()
}
