//! Capture files of ports: recognises files under different names, and checks files before they are opened.

use super::directory::parent;
use super::raw::At;
use capture::Reader;
use engine::port::files::{Identity, Purpose, suits};
use engine::port::pcap::Survey;
use rustix::net::sockopt::socket_peercred;
use settings::{Checker, Problem};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Most symbolic links in a path that lead to one another, as for the kernel (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// The capture files that a configuration names so far.
pub(super) struct Files {
    configuration: PathBuf,
    /// Whether to examine the content of files, and the processes that have them open.
    examines: bool,
    named: Vec<Named>,
}

/// A capture file, as a port names it.
struct Named {
    file: ResolvedFile,
    purpose: Purpose,
    span: Range<usize>,
}

/// A file, identified independently of the path that names it.
#[derive(PartialEq, Eq)]
enum ResolvedFile {
    /// An existing file.
    Existing(Identity),
    /// A file yet to be created: its directory, and its name there.
    New(Identity, OsString),
    /// A file whose directory is missing.
    NoDirectory(PathBuf),
}

impl ResolvedFile {
    fn of(path: &Path) -> ResolvedFile {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            if let Some(file) = Identity::at(&path) {
                return ResolvedFile::Existing(file);
            }
            // A link to a file that is created when it is opened.
            let Ok(target) = fs::read_link(&path) else { break };
            path = parent(&path).join(target);
        }
        match (Identity::at(parent(&path)), path.file_name()) {
            (Some(directory), Some(name)) => ResolvedFile::New(directory, name.to_owned()),
            _ => ResolvedFile::NoDirectory(path),
        }
    }
}

impl Files {
    /// Returns an empty set for this configuration. `examines` says whether to examine the content of files, and the
    /// processes that have them open.
    pub(super) fn new(configuration: &Path, examines: bool) -> Files {
        Files { configuration: configuration.to_owned(), examines, named: Vec::new() }
    }

    /// Adds a file, and checks it against all others and against the machine.
    pub(super) fn add(&mut self, checker: &mut Checker, at: &At<String>, path: &Path, purpose: Purpose) {
        let file = ResolvedFile::of(path);
        if let Ok(meta) = fs::metadata(path)
            && let Err(why) = suits(&meta, purpose)
        {
            let help = match purpose {
                Purpose::Replay => "give a capture file, pcap or pcapng",
                Purpose::Record => "give a file, which is created if it does not exist, or a named pipe",
            };
            return checker.error(&at.span, format!("this cannot be a capture file: {why}"), help);
        }
        if purpose == Purpose::Record && file == ResolvedFile::of(&self.configuration) {
            checker.error(&at.span, "this file is the configuration", "record to another file");
        }
        let clashes = |other: &&Named| other.file == file && [other.purpose, purpose].contains(&Purpose::Record);
        if let Some(other) = self.named.iter().find(clashes) {
            let message = match (other.purpose, purpose) {
                (Purpose::Record, Purpose::Record) => "this file is already written by something else",
                (Purpose::Replay, _) => "this file is replayed by a port",
                (Purpose::Record, _) => "this file is written by a port, so it can't be replayed",
            };
            let problem = Problem::error(&at.span, message, "give each its own");
            checker.problems.push(problem.and_at(&other.span, "already used here"));
        }
        if self.examines {
            match purpose {
                Purpose::Replay => examine(checker, at, path),
                Purpose::Record if matches!(file, ResolvedFile::NoDirectory(_)) => {
                    let help = "nothing is recorded without it: create it before the switch starts";
                    checker.warn(&at.span, format!("there is no directory {}", parent(path).display()), help);
                }
                Purpose::Record => {}
            }
        }
        self.named.push(Named { file, purpose, span: at.span.clone() });
    }

    /// Warns of files that a process records to, but for the switch that has this control socket.
    pub(super) fn recorded_elsewhere(&self, checker: &mut Checker, control: &Path) {
        if !self.examines {
            return;
        }
        let own = UnixStream::connect(control).ok().and_then(|switch| socket_peercred(switch).ok());
        let own = own.map(|peer| peer.pid.as_raw_nonzero().get() as u32);
        let holder = |named: &Named| match named.file {
            ResolvedFile::Existing(file) if named.purpose == Purpose::Record => {
                file.locked_by().filter(|pid| Some(*pid) != own)
            }
            _ => None,
        };
        for (span, process) in self.named.iter().filter_map(|named| Some((&named.span, holder(named)?))) {
            let message = format!("process {process} has this file open, perhaps another Millrace that records to it");
            checker.warn(span, message, "nothing is recorded until it is closed: give each switch its own");
        }
    }
}

/// Reads a file that is to be replayed, and warns of packets that will be skipped.
fn examine(checker: &mut Checker, at: &At<String>, path: &Path) {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => {
            let gone = error.kind() == ErrorKind::NotFound;
            let why =
                if gone { "this file does not exist".to_owned() } else { format!("cannot read this file: {error}") };
            return checker.warn(&at.span, why, "the port is down until it can be read");
        }
    };
    match Reader::new(file).and_then(Survey::of) {
        Ok(survey) => {
            for remark in survey.remarks() {
                checker.warn(&at.span, format!("of this file: {remark}"), "the rest is replayed");
            }
        }
        Err(error) => {
            checker.warn(
                &at.span,
                format!("this file cannot be replayed: {error}"),
                "give a pcap or pcapng file of Ethernet frames",
            );
        }
    }
}
