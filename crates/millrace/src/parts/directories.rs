//! Directories of sockets, which may be gone after a restart of the machine, or come with the first port in one.

use crate::config::Config;
use engine::port::PathUse;
use engine::spec::{PortSpec, Spec};
use nix::unistd::User;
use std::fs::{DirBuilder, create_dir_all};
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};

/// Mode of the directories, less the umask.
const MODE: u32 = 0o755;

/// Error that keeps a directory from being made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the directory {}: {source}", path.display())]
pub struct DirectoryError {
    path: PathBuf,
    source: io::Error,
}

/// Makes the directories that `config` names for sockets, as far as they are missing, for the user that the switch becomes. Before the
/// switch is confined.
pub fn make_for(config: &Config) -> Result<(), DirectoryError> {
    let user = config.confinement.user.as_deref().and_then(|name| User::from_name(name).ok().flatten());
    let sockets = config.spec.ports.iter().flat_map(directories);
    for directory in config.confinement.directories.iter().map(PathBuf::as_path).chain(sockets) {
        let made = make(directory, user.as_ref());
        made.map_err(|source| DirectoryError { path: directory.to_owned(), source })?;
    }
    Ok(())
}

/// Makes the directory of the socket of a port that a running switch is about to open. It may be beneath those that the confinement
/// allows.
pub fn make_of(spec: &Spec, port: &str) -> Result<(), DirectoryError> {
    let port = spec.ports.iter().find(|spec| spec.name == port);
    port.into_iter().flat_map(directories).try_for_each(|directory| {
        let makes = |source| DirectoryError { path: directory.to_owned(), source };
        if directory.exists() { Ok(()) } else { create_dir_all(directory).map_err(makes) }
    })
}

/// Returns the directories of the sockets that a port listens at.
fn directories(port: &PortSpec) -> impl Iterator<Item = &Path> {
    let sockets = port.driver.paths().into_iter().filter(|(path_use, _)| *path_use == PathUse::Listen);
    sockets.filter_map(|(_, path)| path.parent()).filter(|parent| !parent.as_os_str().is_empty())
}

fn make(directory: &Path, user: Option<&User>) -> io::Result<()> {
    let missing: Vec<_> =
        directory.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).collect();
    for path in missing.into_iter().rev() {
        DirBuilder::new().mode(MODE).create(path)?;
        if let Some(user) = user {
            chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_directories_are_made_and_others_stay() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("m.toml");
        let text = "port = [{name='a', driver='vhost-user', socket='run/pods/a/s'}, {name='b', driver='vhost-user', \
                    socket='other/s', mode='client'}]\n[confinement]\ndirectories=['run/pods']\n";
        let (config, _) = Config::parse(&file, text).unwrap_or_else(|report| panic!("{report}"));
        for _ in 0..2 {
            make_for(&config).unwrap();
            assert!(home.path().join("run/pods/a").is_dir() && !home.path().join("other").exists());
        }
        std::fs::remove_dir(home.path().join("run/pods/a")).unwrap();
        make_of(&config.spec, "a").unwrap();
        assert!(home.path().join("run/pods/a").is_dir());
        std::fs::write(home.path().join("file"), "").unwrap();
        let (config, _) = Config::parse(&file, &text.replace("run/pods/a/s", "file/x/s")).unwrap();
        assert!(make_for(&config).unwrap_err().to_string().starts_with("cannot make the directory"));
    }
}
