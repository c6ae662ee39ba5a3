//! The origin of a configuration: the base of its relative paths, and the places that must be readable to read it again.

use std::fs;
use std::path::{Path, PathBuf, absolute};

/// Links that the kernel follows in one path (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Components, with the root, of the path of a directory that a link may grant: `/srv/releases`, but neither `/srv` nor `/`.
const DEEP: usize = 3;

/// The file or descriptor at a path.
pub struct Origin<'p>(pub &'p Path);

impl Origin<'_> {
    /// Reports whether it can be read more than once: a pipe is empty after that, and a reload would find no ports. True also if
    /// it does not exist: reading it reports that.
    pub fn is_file(&self) -> bool {
        fs::metadata(self.0).map_or(true, |meta| meta.is_file())
    }

    /// Returns the directory that paths in it are relative to: the working directory, if it comes by a descriptor (`/dev/stdin`,
    /// `/dev/fd/3`).
    pub fn directory(&self) -> &Path {
        let directory = self.0.parent().unwrap_or(Path::new(""));
        if names_descriptors(directory) { Path::new("") } else { directory }
    }

    /// Returns the directories to read it from, now and after changes: a file may be replaced, and so may any link on the way
    /// to it, usually by one to a neighbour of its target (`current -> releases/42`).
    pub fn places(&self) -> Vec<PathBuf> {
        if !self.is_file() {
            return Vec::new();
        }
        let parent = |path: &Path| path.parent().and_then(|parent| parent.canonicalize().ok());
        let mut places = Vec::new();
        places.extend(self.0.canonicalize().ok().and_then(|file| parent(&file)));
        if !names_descriptors(self.0.parent().unwrap_or(Path::new(""))) {
            places.extend(absolute(self.0).ok().and_then(|path| parent(&path)));
            let neighbours = links(self.0).into_iter().filter_map(|target| parent(&target));
            places.extend(neighbours.filter(|place| place.components().count() >= DEEP));
        }
        places
    }
}

/// Reports whether a directory has names of the process's descriptors, as `/dev` and what `/dev/fd` leads to have: nothing that a
/// configuration is about.
fn names_descriptors(directory: &Path) -> bool {
    directory.canonicalize().is_ok_and(|directory| directory == Path::new("/dev") || directory.starts_with("/proc"))
}

/// Returns the targets of the links in the path of a file, each resolved up to there.
fn links(path: &Path) -> Vec<PathBuf> {
    let (Ok(mut path), mut targets) = (absolute(path), Vec::new()) else { return Vec::new() };
    while let Some((link, target)) = first_link(&path).filter(|_| targets.len() < MOST_LINKS) {
        let rest = path.strip_prefix(&link).expect("it begins with the link").to_owned();
        targets.push(target.clone());
        path = if rest.as_os_str().is_empty() { target } else { target.join(rest) };
    }
    targets
}

/// Returns the first link in a path, and its target.
fn first_link(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut prefixes: Vec<_> = path.ancestors().collect();
    prefixes.reverse();
    prefixes.into_iter().find_map(|prefix| {
        let target = fs::read_link(prefix).ok()?;
        Some((prefix.to_owned(), prefix.parent()?.join(target)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_lead_to_the_neighbours_of_their_targets() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for directory in ["etc", "srv/releases/1", "store/a", "elsewhere"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        fs::write(root.join("store/a/m.toml"), "").unwrap();
        symlink("../../../store/a/m.toml", root.join("srv/releases/1/m.toml")).unwrap();
        symlink("releases/1", root.join("srv/current")).unwrap();
        symlink(root.join("srv/current/m.toml"), root.join("etc/m.toml")).unwrap();
        let mut places = Origin(&root.join("etc/m.toml")).places();
        places.sort();
        places.dedup();
        // The directory of the link to `current/m.toml` is that of the link `m.toml` there.
        let expected = ["etc", "srv/releases", "srv/releases/1", "store/a"].map(|place| root.join(place));
        assert_eq!(places, expected);
        assert_eq!(Origin(&root.join("nowhere")).places(), [root]);
    }

    #[test]
    fn endless_links_end() {
        let root = tempfile::tempdir().unwrap();
        symlink("b", root.path().join("a")).unwrap();
        symlink("a", root.path().join("b")).unwrap();
        assert_eq!(links(&root.path().join("a")).len(), MOST_LINKS);
    }

    #[test]
    fn a_link_to_a_directory_of_the_root_grants_no_others_there() {
        let other = tempfile::tempdir().unwrap();
        symlink("/usr", other.path().join("current")).unwrap();
        let places = Origin(&other.path().join("current/bin/sh")).places();
        assert!(!places.is_empty() && places.iter().all(|place| place != Path::new("/")), "{places:?}");
    }

    #[test]
    fn descriptors_have_no_directory() {
        let (_reader, writer) = std::io::pipe().unwrap();
        let pipe = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        let origin = Origin(Path::new(&pipe));
        assert!(!origin.is_file() && origin.directory() == Path::new("") && origin.places().is_empty());
        let file = tempfile::NamedTempFile::new().unwrap();
        let opened = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let origin = Origin(Path::new(&opened));
        assert!(origin.is_file() && origin.directory() == Path::new(""));
        assert_eq!(origin.places(), [file.path().parent().unwrap().canonicalize().unwrap()]);
        for directory in ["/etc", "/dev/shm"] {
            assert_eq!(Origin(&Path::new(directory).join("m.toml")).directory(), Path::new(directory));
        }
    }
}
