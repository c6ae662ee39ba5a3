//! Capture files of ports: which are the same, however they are written, and what can be seen of them before they are opened.

use super::check::Check;
use super::raw::At;
use capture::Reader;
use engine::port::files::{Identity, Purpose, suits};
use engine::port::pcap::Survey;
use rustix::net::sockopt::socket_peercred;
use settings::Problem;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Most symbolic links in a path that lead to one another, as for the kernel (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// The capture files that a configuration names so far.
#[derive(Default)]
pub(super) struct Files(Vec<Named>);

/// A capture file, as a port names it.
struct Named {
    place: Place,
    purpose: Purpose,
    span: Range<usize>,
}

/// A file, by what is the same under all of its names.
#[derive(PartialEq, Eq)]
enum Place {
    /// It is there.
    There(Identity),
    /// It would be created with this name in a directory.
    New(Identity, OsString),
    /// Its directory is missing.
    Nowhere(PathBuf),
}

impl Place {
    fn of(path: &Path) -> Place {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            if let Some(file) = Identity::at(&path) {
                return Place::There(file);
            }
            // A link to a file that is created when it is opened.
            let Ok(target) = fs::read_link(&path) else { break };
            path = super::parent(&path).join(target);
        }
        match (Identity::at(super::parent(&path)), path.file_name()) {
            (Some(directory), Some(name)) => Place::New(directory, name.to_owned()),
            _ => Place::Nowhere(path),
        }
    }
}

impl Check<'_> {
    /// Checks a capture file against all others, and against the machine.
    pub(super) fn capture_file(&mut self, at: &At<String>, path: &Path, purpose: Purpose) {
        let place = Place::of(path);
        if let Ok(meta) = fs::metadata(path)
            && let Err(why) = suits(&meta, purpose)
        {
            let help = match purpose {
                Purpose::Replay => "give a capture file, pcap or pcapng",
                Purpose::Record => "give a file, which is created if it is not there, or a named pipe",
            };
            return self.error(&at.span, format!("this cannot be a capture file: {why}"), help);
        }
        if purpose == Purpose::Record && place == Place::of(&self.file) {
            self.error(&at.span, "this file is the configuration", "record to another file");
        }
        let clashes = |other: &&Named| other.place == place && [other.purpose, purpose].contains(&Purpose::Record);
        if let Some(other) = self.files.0.iter().find(clashes) {
            let message = match (other.purpose, purpose) {
                (Purpose::Record, Purpose::Record) => "this file is already written by something else",
                (Purpose::Replay, _) => "this file is replayed by a port",
                (Purpose::Record, _) => "this file is written by a port, so it can't be replayed",
            };
            let problem = Problem::error(&at.span, message, "give each its own");
            let problem = problem.and_at(&other.span, "already used here");
            self.problems.push(problem);
        }
        if self.examines {
            match purpose {
                Purpose::Replay => self.examine_replay(at, path),
                Purpose::Record if matches!(place, Place::Nowhere(_)) => {
                    let help = "nothing is recorded without it: create it before the switch starts";
                    self.warn(&at.span, format!("there is no directory {}", super::parent(path).display()), help);
                }
                Purpose::Record => {}
            }
        }
        self.files.0.push(Named { place, purpose, span: at.span.clone() });
    }

    /// Reads a file that is to be replayed, and tells what of it will not be.
    fn examine_replay(&mut self, at: &At<String>, path: &Path) {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) => {
                let gone = error.kind() == ErrorKind::NotFound;
                let why =
                    if gone { "this file is not there".to_owned() } else { format!("cannot read this file: {error}") };
                return self.warn(&at.span, why, "the port is down until it can be read");
            }
        };
        match Reader::new(file).and_then(Survey::of) {
            Ok(survey) => {
                for remark in survey.remarks() {
                    self.warn(&at.span, format!("of this file: {remark}"), "the rest is replayed");
                }
            }
            Err(error) => {
                self.warn(
                    &at.span,
                    format!("this file cannot be replayed: {error}"),
                    "give a pcap or pcapng file of Ethernet frames",
                );
            }
        }
    }

    /// Warns of files that a process records to, but for the switch that has this control socket.
    pub(super) fn recorded_elsewhere(&mut self, control: &Path) {
        if !self.examines {
            return;
        }
        let own = UnixStream::connect(control).ok().and_then(|switch| socket_peercred(switch).ok());
        let own = own.map(|peer| peer.pid.as_raw_nonzero().get() as u32);
        let holder = |named: &Named| match named.place {
            Place::There(file) if named.purpose == Purpose::Record => file.locked_by().filter(|pid| Some(*pid) != own),
            _ => None,
        };
        let held: Vec<_> = self.files.0.iter().filter_map(|at| Some((at.span.clone(), holder(at)?))).collect();
        for (span, process) in held {
            let message = format!("process {process} has this file open, perhaps another Millrace that records to it");
            self.warn(&span, message, "nothing is recorded until it is closed: give each switch its own");
        }
    }
}
