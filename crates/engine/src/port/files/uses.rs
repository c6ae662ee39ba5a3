//! The files of a specification, and the user of each.

use super::Identity;
use std::fmt;
use std::path::PathBuf;
use std::sync::Mutex;

/// A file that the switch uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileUse {
    /// Its path.
    pub path: PathBuf,
    /// Its user.
    pub user: FileUser,
}

/// A part of the switch that uses a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileUser {
    /// The switch itself: its configuration.
    Configuration,
    /// A port that replays it, by name.
    Replay(String),
    /// A port that records to it, by name.
    Recording(String),
}

/// Continues "the file is in use: ".
impl fmt::Display for FileUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileUser::Configuration => f.write_str("it is the configuration"),
            FileUser::Replay(port) => write!(f, "port \"{port}\" replays it"),
            FileUser::Recording(port) => write!(f, "port \"{port}\" records to it"),
        }
    }
}

/// The files that the switch uses now.
#[derive(Debug, Default)]
pub struct FileUses(Mutex<Vec<FileUse>>);

impl FileUses {
    /// Sets all uses.
    pub fn set(&self, uses: Vec<FileUse>) {
        *self.0.lock().unwrap() = uses;
    }

    /// Returns the port that reads this file: no port may write to it.
    pub(super) fn reader(&self, file: Identity) -> Option<FileUser> {
        self.find(file, |user| !matches!(user, FileUser::Recording(_)))
    }

    /// Returns the other port that records to this file.
    pub(super) fn writer(&self, file: Identity, but: &str) -> Option<FileUser> {
        self.find(file, |user| matches!(user, FileUser::Recording(port) if port != but))
    }

    fn find(&self, file: Identity, fits: impl Fn(&FileUser) -> bool) -> Option<FileUser> {
        let uses = self.0.lock().unwrap();
        let found = uses.iter().filter(|at| fits(&at.user)).find(|at| Identity::at(&at.path) == Some(file));
        found.map(|at| at.user.clone())
    }
}
