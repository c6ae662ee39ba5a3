//! The archive format of an initramfs: cpio, "newc"
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

const DIRECTORY: u32 = 0o040_755;
const EXECUTABLE: u32 = 0o100_755;
const SYMLINK: u32 = 0o120_777;

/// An archive being written.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    pub(super) fn directory(&mut self, path: &str) {
        self.entry(path, DIRECTORY, &[]);
    }

    pub(super) fn executable(&mut self, path: &str, content: &[u8]) {
        self.entry(path, EXECUTABLE, content);
    }

    pub(super) fn symlink(&mut self, path: &str, target: &str) {
        self.entry(path, SYMLINK, target.as_bytes());
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let name_size = path.len() as u32 + 1;
        // ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
        let fields = [self.entries, mode, 0, 0, 1, 0, content.len() as u32, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_ended() {
        let mut archive = Archive::default();
        archive.directory("d");
        archive.executable("d/f", b"12345");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        // 6 + 13 * 8 bytes of header and "d\0" are 112 bytes: the second entry needs no padding before it.
        assert_eq!(&bytes[112..118], b"070701");
        assert_eq!(&bytes[112 + 110..112 + 114], b"d/f\0");
        assert!(bytes.ends_with(b"TRAILER!!!\0\0\0\0"));
    }
}
