//! The identity of the file that a path names.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file by device and inode: links, and other spellings of a path, name the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// Returns the identity of the file that this describes.
    pub fn of(meta: &Metadata) -> Identity {
        Identity { device: meta.dev(), inode: meta.ino() }
    }

    /// Returns the identity of the file that a path names, if there is one.
    pub fn at(path: &Path) -> Option<Identity> {
        fs::metadata(path).ok().map(|meta| Identity::of(&meta))
    }

    /// Returns the process that has locked the file by flock(2), as far as the kernel tells.
    pub fn locked_by(self) -> Option<u32> {
        holder(&fs::read_to_string("/proc/locks").ok()?, self)
    }
}

/// Finds the process that has locked a file in the lines of /proc/locks: `1: FLOCK  ADVISORY  WRITE 314 fe:01:2718 0 EOF`
/// (proc(5)).
fn holder(locks: &str, file: Identity) -> Option<u32> {
    let [major, minor] = [rustix::fs::major(file.device), rustix::fs::minor(file.device)];
    let place = format!("{major:02x}:{minor:02x}:{}", file.inode);
    locks.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_here = fields.next() == Some("FLOCK");
        let process = fields.nth(2)?.parse().ok()?;
        (is_here && fields.next() == Some(&place) && process > 0).then_some(process)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_spellings_name_the_same_file() {
        let directory = tempfile::tempdir().unwrap();
        let [file, soft, hard, other] = ["file", "soft", "hard", "other"].map(|name| directory.path().join(name));
        assert_eq!(Identity::at(&file), None);
        fs::write(&file, "").unwrap();
        fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&file, &soft).unwrap();
        fs::hard_link(&file, &hard).unwrap();
        let own = Identity::at(&file);
        assert!(own.is_some() && own != Identity::at(&other));
        for path in [soft, hard, directory.path().join("./file")] {
            assert_eq!(Identity::at(&path), own, "{}", path.display());
        }
    }

    #[test]
    fn the_process_that_locks_a_file_is_found() {
        let locks = "1: POSIX  ADVISORY  WRITE 10 fe:01:7 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 11 fe:01:8 0 EOF\n\
                     3: FLOCK  ADVISORY  READ  12 fe:01:7 0 EOF\n\
                     4: -> FLOCK  ADVISORY  WRITE 13 fe:01:9 0 EOF\n";
        let on = |inode| Identity { device: rustix::fs::makedev(0xfe, 1), inode };
        // One that waits for a lock has none.
        assert_eq!([7, 8, 9].map(|inode| holder(locks, on(inode))), [Some(12), Some(11), None]);
        let file = tempfile::NamedTempFile::new().unwrap();
        let identity = Identity::of(&file.as_file().metadata().unwrap());
        assert_eq!(identity.locked_by(), None);
        rustix::fs::flock(file.as_file(), rustix::fs::FlockOperation::LockShared).unwrap();
        assert_eq!(identity.locked_by(), Some(std::process::id()));
    }
}
