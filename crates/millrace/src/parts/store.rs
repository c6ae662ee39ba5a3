//! The directory that keeps added parts: a file each, which is there as a whole or not at all.

use crate::config::Part;
use api::part::PartKind;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fsync, open, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Ending of the name of a file that is not complete yet.
const NEW: &str = ".new";
/// Ending of the names of files of parts.
const TOML: &str = ".toml";
/// Longest file that is read: longer ones are not the switch's.
const LONGEST: u64 = 1 << 20;

/// The directory.
#[derive(Debug)]
pub struct Store {
    /// Open since the start, as a confined switch may not look at directories.
    directory: OwnedFd,
    path: PathBuf,
}

impl Store {
    /// Opens the directory at `path`, and removes what a switch has left there that was killed.
    pub fn open(path: &Path) -> io::Result<Store> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let store = Store { directory: open(path, flags, Mode::empty())?, path: path.to_owned() };
        for name in store.names()?.iter().filter(|name| name.strip_suffix(NEW).is_some_and(|name| name.ends_with(TOML)))
        {
            // A file that stays is not read.
            _ = unlinkat(&store.directory, name.as_str(), AtFlags::empty());
        }
        Ok(store)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the parts, each with the name of its file, those that others may refer to first; or why one cannot be read.
    pub fn load(&self) -> io::Result<Vec<(String, Result<Part, String>)>> {
        let mut names = self.names()?;
        names.retain(|name| name.ends_with(TOML));
        names.sort_unstable();
        let mut parts: Vec<_> = names
            .into_iter()
            .map(|name| {
                let part = self.read(&name);
                (name, part)
            })
            .collect();
        parts.sort_by_key(|(_, part)| part.as_ref().ok().map(|part| part.kind));
        Ok(parts)
    }

    /// Writes a part. When this returns, the part outlives a crash of the machine.
    pub fn put(&self, part: &Part) -> io::Result<()> {
        let name = name(part.kind, &part.name);
        let new = format!("{name}{NEW}");
        let written = self.write(&new, &part.text()).and_then(|()| {
            renameat(&self.directory, &*new, &self.directory, &*name)?;
            Ok(fsync(&self.directory)?)
        });
        if written.is_err() {
            _ = unlinkat(&self.directory, &*new, AtFlags::empty());
        }
        written
    }

    /// Writes a file that others can only see as a whole later. It is not what others put there before, such as a link or a pipe.
    fn write(&self, new: &str, text: &str) -> io::Result<()> {
        match unlinkat(&self.directory, new, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.directory, new, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(text.as_bytes())?;
        Ok(fsync(&file)?)
    }

    /// Removes a part. When this returns, the part does not come back after a crash of the machine.
    pub fn remove(&self, kind: PartKind, part: &str) -> io::Result<()> {
        match unlinkat(&self.directory, name(kind, part), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(fsync(&self.directory)?),
            Err(error) => Err(error.into()),
        }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = Dir::read_from(&self.directory)?;
        let names = entries
            .filter_map(|entry| entry.map(|entry| entry.file_name().to_str().ok().map(str::to_owned)).transpose());
        Ok(names.collect::<Result<_, _>>()?)
    }

    fn read(&self, file: &str) -> Result<Part, String> {
        let read = || {
            // Opening a pipe would wait for its writer.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let opened = File::from(openat(&self.directory, file, flags, Mode::empty())?);
            if !opened.metadata()?.is_file() {
                return Err(io::Error::other("it is not a regular file"));
            }
            let mut text = String::new();
            opened.take(LONGEST).read_to_string(&mut text).map(|_| text)
        };
        let part = Part::read(&read().map_err(|error| error.to_string())?).map_err(|problems| problems.join("; "))?;
        let expected = name(part.kind, &part.name);
        if expected == file { Ok(part) } else { Err(format!("the file of that {} is {expected}", part.kind)) }
    }
}

/// Returns the name of a part's file. Names of ports and bridges have no dots.
pub(super) fn name(kind: PartKind, part: &str) -> String {
    match kind {
        PartKind::Port => format!("{part}.toml"),
        PartKind::Bridge | PartKind::Patch => format!("{part}.{kind}.toml"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, mkfifoat};

    fn part(name: &str) -> Part {
        Part::read(&format!("[[port]]\nname = \"{name}\"\ndriver = \"sink\"\nlabels = {{ pod = \"ns/{name}\" }}\n"))
            .unwrap()
    }

    #[test]
    fn links_pipes_and_directories_are_neither_read_nor_written() {
        let home = tempfile::tempdir().unwrap();
        let [kept, other] = ["ports.d", "other"].map(|name| home.path().join(name));
        std::fs::create_dir(&kept).unwrap();
        std::fs::write(&other, part("a").text()).unwrap();
        std::os::unix::fs::symlink(&other, kept.join("a.toml")).unwrap();
        mkfifoat(CWD, kept.join("b.toml"), Mode::RWXU).unwrap();
        std::fs::create_dir_all(kept.join("c.toml.new")).unwrap();
        std::fs::write(kept.join("notes.new"), "").unwrap();
        let store = Store::open(&kept).unwrap();
        assert!(kept.join("notes.new").exists(), "it is not the switch's");
        assert!(store.load().unwrap().iter().all(|(_, part)| part.is_err()));
        std::os::unix::fs::symlink(&other, kept.join("d.toml.new")).unwrap();
        store.put(&part("d")).unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), part("a").text());
        assert!(kept.join("d.toml").symlink_metadata().unwrap().is_file());
        // It cannot be renamed to a directory.
        std::fs::create_dir(kept.join("e.toml")).unwrap();
        assert!(store.put(&part("e")).is_err() && store.put(&part("c")).is_err());
        assert!(!kept.join("e.toml.new").exists());
    }

    #[test]
    fn parts_are_kept_whole_and_what_is_half_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path()).unwrap();
        store.put(&part("a")).unwrap();
        store.put(&part("b")).unwrap();
        store.put(&Part::read("[[bridge]]\nname = \"z\"\n").unwrap()).unwrap();
        store.remove(PartKind::Port, "b").unwrap();
        store.remove(PartKind::Port, "b").unwrap();
        std::fs::write(home.path().join("c.toml.new"), "[[port").unwrap();
        std::fs::write(home.path().join("d.toml"), "[[port").unwrap();
        std::fs::write(home.path().join("e.toml"), part("f").text()).unwrap();
        let store = Store::open(home.path()).unwrap();
        assert!(!home.path().join("c.toml.new").exists());
        let loaded = store.load().unwrap();
        let names: Vec<_> = loaded.iter().map(|(file, part)| (file.as_str(), part.is_ok())).collect();
        assert_eq!(names, [("d.toml", false), ("e.toml", false), ("z.bridge.toml", true), ("a.toml", true)]);
        let kept = loaded.last().unwrap().1.as_ref().unwrap();
        assert!(part("a").differences(kept).is_empty());
        assert_eq!(kept.labels()["pod"], "ns/a");
        assert!(loaded[1].1.as_ref().unwrap_err().contains("f.toml"));
    }
}
