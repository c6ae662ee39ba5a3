//! Directories of sockets, which may be gone after a restart of the machine, or come with the first port in one.

use crate::config::Config;
use engine::port::PathUse;
use engine::spec::{PortSpec, Spec};
use nix::unistd::User;
use rustix::fs::{Gid, Mode, OFlags, Uid, fchown, mkdirat, open, openat};
use rustix::io::Errno;
use std::fs::create_dir_all;
use std::io;
use std::path::{Path, PathBuf};

/// Mode of the directories, less the umask.
const MODE: Mode = Mode::from_raw_mode(0o755);

/// Error that keeps a directory from being made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the directory {}: {source}", path.display())]
pub struct DirectoryError {
    path: PathBuf,
    source: io::Error,
}

/// Makes the directories that `config`, that of the file alone, names for sockets, as far as they are missing, for the user that the switch
/// becomes. Before the switch is confined: those of added ports are made later, with fewer rights.
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
    let Some(parent) = missing.last().and_then(|first| first.parent()) else { return Ok(()) };
    // From here on by descriptors: others who may write here could put a link in the place of a new directory.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let mut within = open(parent, flags, Mode::empty())?;
    for path in missing.into_iter().rev() {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let is_new = match mkdirat(&within, name, MODE) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        };
        within = openat(&within, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
        if is_new && let Some(user) = user {
            fchown(&within, Some(Uid::from_raw(user.uid.as_raw())), Some(Gid::from_raw(user.gid.as_raw())))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn new_directories_are_not_behind_links() {
        let home = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(home.path().join("elsewhere"), home.path().join("run")).unwrap();
        assert!(make(&home.path().join("run/pods"), None).is_err());
        assert!(!home.path().join("elsewhere").exists());
        std::fs::create_dir(home.path().join("elsewhere")).unwrap();
        let nobody = User::from_name("nobody").unwrap().unwrap();
        make(&home.path().join("run/pods/a"), Some(&nobody)).unwrap();
        let owner = |path: &str| std::fs::metadata(home.path().join(path)).unwrap().uid();
        assert_eq!([owner("run/pods"), owner("run/pods/a")], [nobody.uid.as_raw(); 2]);
        assert_ne!(owner("elsewhere"), nobody.uid.as_raw());
    }

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
