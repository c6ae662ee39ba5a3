//! The file that packets are recorded to. It holds whole packets only, whatever happens.

use super::backlog::Backlog;
use super::shown::{Shown, Trouble};
use crate::drops::Reason;
use crate::port::files::Identity;
use capture::file_header;
use packet::Frames;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::time::Duration;

/// Length of the longest packet, as the file's header gives it: the one that tcpdump gives. Longer frames do not exist.
const LONGEST: u32 = 262_144;

/// See the module.
pub(super) struct Tape {
    backlog: Backlog,
    file: Option<Open>,
    /// Reason why no frames are taken.
    trouble: Option<Trouble>,
}

/// An open file.
pub(super) struct Open {
    file: File,
    identity: Identity,
    is_pipe: bool,
    /// Length of the header and all whole packets, in bytes.
    length: u64,
    /// Whether a part of a packet may follow them.
    is_ragged: bool,
}

impl Tape {
    /// Returns a tape without a file.
    pub(super) fn new(shown: &Shown) -> Tape {
        let mut tape = Tape { backlog: Backlog::new(), file: None, trouble: None };
        tape.fail("it is not open yet", shown);
        tape
    }

    /// Takes frames that were seen at `time` since 1970. Returns how many, and why not the others.
    pub(super) fn take(&mut self, time: Duration, frames: &Frames<'_>, shown: &Shown) -> (usize, Option<Reason>) {
        for (number, frame) in frames.as_slice().iter().enumerate() {
            if self.trouble.is_none() && !self.backlog.has_room(frame) {
                self.flush(shown);
            }
            let refused = self.trouble.as_ref().map(|trouble| trouble.reason);
            let refused = refused.or((!self.backlog.has_room(frame)).then_some(Reason::Busy));
            if refused.is_some() {
                return (number, refused);
            }
            self.backlog.push(time, frames, frame);
        }
        (frames.len(), None)
    }

    /// Writes all packets that wait, or as many as there is room for.
    pub(super) fn flush(&mut self, shown: &Shown) {
        let Some(open) = &mut self.file else { return };
        if open.is_ragged && open.cut_back().is_err() {
            return;
        }
        let written = self.backlog.write_to(&mut open.file);
        open.length += written.bytes;
        shown.add_written(written.packets);
        let trouble = match written.outcome {
            Ok(()) => None,
            // The reader of a pipe is slow.
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.file = None;
                self.backlog.rewind();
                Some(Trouble::new(Reason::NoFile, "nobody reads the pipe any more"))
            }
            Err(error) => {
                if !open.is_pipe {
                    // If this fails, it is tried again before anything else is written.
                    let _ = open.cut_back();
                    self.backlog.rewind();
                }
                Some(Trouble::new(reason(&error), error))
            }
        };
        self.set_trouble(trouble, shown);
    }

    /// Continues with this file. Waiting packets go there.
    pub(super) fn insert(&mut self, open: Open, shown: &Shown) {
        self.flush(shown);
        self.backlog.rewind();
        self.file = Some(open);
        self.flush(shown);
    }

    /// Notes why no file can be opened.
    pub(super) fn fail(&mut self, why: &str, shown: &Shown) {
        self.set_trouble(Some(Trouble::new(Reason::NoFile, why)), shown);
    }

    /// Closes the file, with all packets that it can take. Returns how many are lost.
    pub(super) fn end(&mut self, shown: &Shown) -> u64 {
        self.flush(shown);
        self.file = None;
        let lost = self.backlog.give_up();
        let trouble = self.trouble.take().unwrap_or(Trouble::new(Reason::NoFile, "it has ended"));
        shown.add_given_up(lost, trouble.reason);
        self.set_trouble(Some(trouble), shown);
        lost
    }

    /// Reports whether another process has shortened the file; if so, starts it again.
    pub(super) fn restart_if_cut(&mut self, shown: &Shown) -> bool {
        let Some(open) = &mut self.file else { return false };
        let is_cut = open.is_cut();
        if is_cut && let Err(why) = open.start() {
            self.file = None;
            self.backlog.rewind();
            self.fail(&why, shown);
        }
        is_cut
    }

    /// Returns which file is open, if one is.
    pub(super) fn identity(&self) -> Option<Identity> {
        self.file.as_ref().map(|open| open.identity)
    }

    /// Returns why no frames are taken, if so.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.as_ref().map(|trouble| trouble.why.clone())
    }

    fn set_trouble(&mut self, trouble: Option<Trouble>, shown: &Shown) {
        if trouble != self.trouble {
            shown.set_trouble(trouble.clone());
            self.trouble = trouble;
        }
    }
}

impl Open {
    /// Starts the recording in an empty file, or a pipe.
    pub(super) fn new(file: File) -> Result<Open, String> {
        let meta = file.metadata().map_err(|error| error.to_string())?;
        let is_pipe = meta.file_type().is_fifo();
        let mut open = Open { file, identity: Identity::of(&meta), is_pipe, length: 0, is_ragged: false };
        open.start()?;
        Ok(open)
    }

    /// Empties the file, and writes its header.
    fn start(&mut self) -> Result<(), String> {
        let header = file_header(LONGEST);
        self.length = 0;
        let started = self.cut_back().and_then(|()| self.file.write_all(&header));
        self.length = header.len() as u64;
        started.map_err(|error| error.to_string())
    }

    /// Removes all but whole packets.
    fn cut_back(&mut self) -> io::Result<()> {
        let cut = if self.is_pipe { Ok(()) } else { self.file.set_len(self.length) };
        self.is_ragged = cut.is_err();
        cut
    }

    /// Reports whether another process has shortened the file. Later packets are appended to it, so it stays too short.
    fn is_cut(&self) -> bool {
        !self.is_pipe && self.file.metadata().is_ok_and(|meta| meta.len() < self.length)
    }
}

/// Returns why frames are lost when this error keeps them from the file.
fn reason(error: &io::Error) -> Reason {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Reason::NoRoom,
        _ => Reason::Refused,
    }
}
