//! Opening capture files: no file in use is overwritten, and opening a pipe never blocks.
//!
//! A file is locked by flock(2) as long as it is written, or while it is read. Other instances of Millrace respect that.

use super::{FileUses, Identity};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// The use of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To replay all of it.
    Replay,
    /// To record to it from its start.
    Record,
}

/// Checks that a file is of a kind that can be opened for this.
pub fn suits(meta: &Metadata, purpose: Purpose) -> Result<(), &'static str> {
    let kind = meta.file_type();
    match purpose {
        _ if kind.is_file() => Ok(()),
        Purpose::Record if kind.is_fifo() => Ok(()),
        Purpose::Replay if kind.is_fifo() => Err("it is a named pipe, and a replay needs a file that has an end"),
        _ if kind.is_dir() => Err("it is a directory, not a file"),
        _ if kind.is_socket() => Err("it is a socket, not a file"),
        _ => Err("it is a device, not a file"),
    }
}

impl FileUses {
    /// Opens a file for `port` to read it, and locks it against writers.
    pub(crate) fn open_to_read(&self, path: &Path, port: &str) -> Result<File, String> {
        let file = open(path, Purpose::Replay, OpenOptions::new().read(true))?;
        self.lock(&file, port, FlockOperation::NonBlockingLockShared)?;
        Ok(file)
    }

    /// Opens a file or a pipe for `port` to write at its end, creates it if it isn't there, and locks it. Its contents stay.
    pub(crate) fn open_to_write(&self, path: &Path, port: &str) -> Result<File, String> {
        let mut options = OpenOptions::new();
        // A pipe in a directory that anybody writes to can't be opened with O_CREAT (fs.protected_fifos, proc_sys_fs(5)).
        options.append(true).create(fs::metadata(path).is_err());
        let file = open(path, Purpose::Record, &mut options)?;
        self.lock(&file, port, FlockOperation::NonBlockingLockExclusive)?;
        match self.reader(identity(&file)?) {
            Some(reader) => Err(format!("{reader}: record to another file")),
            None => Ok(file),
        }
    }

    fn lock(&self, file: &File, port: &str, lock: FlockOperation) -> Result<(), String> {
        match flock(file, lock) {
            Err(Errno::WOULDBLOCK) => {}
            // Not every file system can lock; there, no process has locked it.
            _ => return Ok(()),
        }
        let identity = identity(file)?;
        Err(match (self.writer(identity, port), identity.locked_by()) {
            (Some(writer), _) => format!("{writer}: give each its own file"),
            (None, Some(process)) if process == std::process::id() => "this switch has it open".to_owned(),
            (None, Some(process)) => {
                format!("process {process} has it open, perhaps another Millrace that records to it")
            }
            (None, None) => "another process has it open, perhaps another Millrace that records to it".to_owned(),
        })
    }
}

/// Opens a file of a kind that suits the purpose, and never waits for another end of it.
fn open(path: &Path, purpose: Purpose, options: &mut OpenOptions) -> Result<File, String> {
    // Opening a device may do something to it.
    let suits = |meta: io::Result<Metadata>| match meta {
        Ok(meta) => suits(&meta, purpose).map_err(str::to_owned),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.to_string()),
    };
    suits(fs::metadata(path))?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = options.custom_flags(flags.bits() as i32).open(path).map_err(|error| match error.raw_os_error() {
        // fifo(7): no process has it open for reading.
        Some(code) if code == Errno::NXIO.raw_os_error() => "nobody reads the pipe".to_owned(),
        _ => error.to_string(),
    })?;
    suits(file.metadata())?;
    Ok(file)
}

fn identity(file: &File) -> Result<Identity, String> {
    file.metadata().map(|meta| Identity::of(&meta)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::{FileUse, FileUser};
    use super::*;
    use std::os::unix::net::UnixListener;

    fn uses(list: &[(&Path, FileUser)]) -> FileUses {
        let uses = FileUses::default();
        uses.set(list.iter().map(|(path, user)| FileUse { path: (*path).into(), user: user.clone() }).collect());
        uses
    }

    #[test]
    fn other_files_are_refused_and_a_pipe_waits_for_its_reader() {
        let directory = tempfile::tempdir().unwrap();
        let [pipe, socket] = ["pipe", "socket"].map(|name| directory.path().join(name));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let _socket = UnixListener::bind(&socket).unwrap();
        let uses = FileUses::default();
        let cases = [(directory.path(), "a directory"), (&socket, "a socket"), (Path::new("/dev/null"), "a device")];
        for (path, what) in cases {
            for opened in [uses.open_to_read(path, "own"), uses.open_to_write(path, "own")] {
                let why = opened.unwrap_err();
                assert!(why.contains(what), "{why}");
            }
        }
        assert!(uses.open_to_read(&pipe, "own").unwrap_err().contains("a named pipe"));
        assert_eq!(uses.open_to_write(&pipe, "own").unwrap_err(), "nobody reads the pipe");
        let _reader = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&pipe).unwrap();
        uses.open_to_write(&pipe, "own").unwrap();
        assert!(uses.open_to_read(&directory.path().join("gone"), "own").unwrap_err().contains("No such file"));
    }

    #[test]
    fn a_file_in_use_is_not_written_under_any_name() {
        let directory = tempfile::tempdir().unwrap();
        let [config, replay, tape] = ["m.toml", "in.pcap", "out.pcap"].map(|name| directory.path().join(name));
        let names = ["soft", "hard"].map(|name| directory.path().join(name));
        for path in [&config, &replay, &tape] {
            fs::write(path, "what it holds").unwrap();
        }
        let uses = uses(&[
            (&config, FileUser::Configuration),
            (&replay, FileUser::Replay("in".into())),
            (&tape, FileUser::Recording("out".into())),
        ]);
        let writer = uses.open_to_write(&tape, "own").unwrap();
        for (path, why) in [
            (&config, "it is the configuration: "),
            (&replay, "port \"in\" replays it: "),
            (&tape, "port \"out\" records to it: "),
        ] {
            std::os::unix::fs::symlink(path, &names[0]).unwrap();
            fs::hard_link(path, &names[1]).unwrap();
            for name in [&names[0], &names[1], &path.parent().unwrap().join(".").join(path.file_name().unwrap())] {
                let told = uses.open_to_write(name, "own").unwrap_err();
                assert!(told.starts_with(why), "{}: {told}", name.display());
            }
            assert_eq!(fs::read_to_string(path).unwrap(), "what it holds");
            names.iter().for_each(|name| fs::remove_file(name).unwrap());
        }
        // Another switch does not know who it is, but the kernel knows the process.
        let other = FileUses::default();
        assert_eq!(other.open_to_read(&tape, "own").unwrap_err(), "this switch has it open");
        drop(writer);
        let _reader = other.open_to_read(&tape, "own").unwrap();
        other.open_to_read(&tape, "own").unwrap();
        assert!(other.open_to_write(&tape, "own").is_err(), "it is being read");
    }
}
