//! The directory that keeps added parts: a file each, which is there as a whole or not at all.

use crate::config::{Part, PartKind};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fsync, open, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Ending of the name of a file that is not complete yet.
const NEW: &str = ".new";
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
        for name in store.names()?.iter().filter(|name| name.ends_with(NEW)) {
            unlinkat(&store.directory, name.as_str(), AtFlags::empty())?;
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
        names.retain(|name| name.ends_with(".toml"));
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
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.directory, &*new, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(part.text().as_bytes())?;
        fsync(&file)?;
        renameat(&self.directory, &*new, &self.directory, &*name)?;
        Ok(fsync(&self.directory)?)
    }

    /// Removes a part. When this returns, the part does not come back after a crash of the machine.
    pub fn remove(&self, kind: PartKind, part: &str) -> io::Result<()> {
        // It may be any text.
        if part.contains(['/', '\0']) {
            return Ok(());
        }
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
            let opened = openat(&self.directory, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            let mut text = String::new();
            File::from(opened).take(LONGEST).read_to_string(&mut text).map(|_| text)
        };
        let part = Part::read(&read().map_err(|error| error.to_string())?).map_err(|problems| problems.join("; "))?;
        let expected = name(part.kind, &part.name);
        if expected == file { Ok(part) } else { Err(format!("the file of that {} is {expected}", part.kind)) }
    }
}

/// Returns the name of a part's file. Names of ports and bridges have no dots.
fn name(kind: PartKind, part: &str) -> String {
    match kind {
        PartKind::Port => format!("{part}.toml"),
        PartKind::Bridge | PartKind::Patch => format!("{part}.{kind}.toml"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str) -> Part {
        Part::read(&format!("[[port]]\nname = \"{name}\"\ndriver = \"sink\"\nlabels = {{ pod = \"ns/{name}\" }}\n"))
            .unwrap()
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
