//! Files that frames are recorded to.
//!
//! Workers add frames to a backlog, and write it when it is full; the housekeeper writes it every second. It also opens the
//! file, and retries after failures: a worker only writes to an open file, and never waits for the reader of a pipe.

mod backlog;
mod shown;
mod tape;
#[cfg(test)]
mod tests;

use super::files::{FileUses, Identity};
use crate::drops::Reason;
use crate::stats::RecordingStats;
use packet::Frames;
use shown::{Shown, Trouble};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};
use tape::{Open, Tape};

/// A pcap file that several queues of a port write to.
#[derive(Clone)]
pub struct Recorder(Arc<Recording>);

struct Recording {
    port: String,
    path: PathBuf,
    files: Arc<FileUses>,
    tape: Mutex<Tape>,
    shown: Shown,
    /// Locked by control threads while they open the file.
    care: Mutex<Care>,
}

/// A recording as control threads see it.
#[derive(Default)]
struct Care {
    /// Whether it is over, for good.
    ended: bool,
    /// Whether the open file is no longer at the path, and the file there can't be opened yet.
    is_behind: bool,
    /// The trouble that was logged last, if it lasts.
    told: Option<Trouble>,
}

/// Frames that a recording has taken.
pub(crate) struct Taken {
    /// Number of frames taken, from the first on.
    pub(crate) frames: usize,
    /// Reason why the rest was not taken.
    pub(crate) refused: Option<Reason>,
}

impl Recorder {
    /// Returns a recording of `port` to `path`, among the files that the switch uses. It takes no frames before
    /// [`Recorder::renew`] has opened its file.
    pub(crate) fn new(port: &str, path: &Path, files: &Arc<FileUses>) -> Recorder {
        let shown = Shown::default();
        let tape = Tape::new(&shown);
        Recorder(Arc::new(Recording {
            port: port.to_owned(),
            path: path.to_owned(),
            files: files.clone(),
            tape: Mutex::new(tape),
            shown,
            care: Mutex::default(),
        }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    /// Takes frames, and counts those that it cannot take.
    pub(crate) fn write(&self, frames: Frames<'_>) -> Taken {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let shown = &self.0.shown;
        let (taken, refused) = self.tape().take(now, &frames, shown);
        shown.add_taken(taken as u64);
        if let Some(reason) = refused {
            shown.add_lost((frames.len() - taken) as u64, reason);
        }
        Taken { frames: taken, refused }
    }

    /// Writes all frames taken so far, so that readers of the file see them, and retries after failures. Called every second.
    pub(crate) fn keep(&self) {
        let mut care = self.0.care.lock().unwrap();
        if care.ended {
            return;
        }
        if self.tape().restart_if_cut(&self.0.shown) {
            tracing::warn!("port \"{}\": somebody else has shortened {}; it starts again", self.0.port, self.name());
        }
        self.tape().flush(&self.0.shown);
        let open = self.tape().identity();
        if open.is_none() {
            let _ = self.open();
        } else if care.is_behind && open != Identity::at(&self.0.path) && self.open().is_ok() {
            care.is_behind = false;
            tracing::info!("port \"{}\": {} could be opened again", self.0.port, self.name());
        }
        self.tell(&mut care);
    }

    /// Makes sure that frames go to the file that is at the path now, and that it accepts them. Reports whether this changed.
    pub(crate) fn renew(&self) -> Result<bool, String> {
        let mut care = self.0.care.lock().unwrap();
        if care.ended {
            return Ok(false);
        }
        let (open, trouble) = {
            let tape = self.tape();
            (tape.identity(), tape.trouble())
        };
        if open.is_none() || open != Identity::at(&self.0.path) {
            let opened = self.open();
            care.is_behind = open.is_some() && opened.is_err();
            return opened.map(|()| true);
        }
        care.is_behind = false;
        if trouble.is_none() {
            return Ok(false);
        }
        self.tape().flush(&self.0.shown);
        self.tape().trouble().map_or(Ok(true), Err)
    }

    /// Ends the recording: the file gets all frames that it can take, and is closed.
    pub(crate) fn end(&self) {
        self.0.care.lock().unwrap().ended = true;
        let lost = self.tape().end(&self.0.shown);
        if lost > 0 {
            let why = self.0.shown.trouble().map(|trouble| trouble.why).unwrap_or_default();
            tracing::error!("port \"{}\": the last {lost} frames are not in {}: {why}", self.0.port, self.name());
        }
    }

    pub(crate) fn stats(&self) -> RecordingStats {
        let shown = &self.0.shown;
        let trouble = shown.trouble();
        RecordingStats {
            file: self.name().to_string(),
            records: trouble.is_none(),
            state: trouble.map_or("records".to_owned(), |trouble| trouble.why),
            written: shown.written(),
            waiting: shown.waiting(),
            lost: shown.lost(),
        }
    }

    /// Opens the file at the path, and continues there. If that fails and a file is open, this one stays.
    fn open(&self) -> Result<(), String> {
        let opened = self.0.files.open_to_write(&self.0.path, &self.0.port).and_then(Open::new);
        let mut tape = self.tape();
        match opened {
            Ok(open) => tape.insert(open, &self.0.shown),
            Err(why) => {
                if tape.identity().is_none() {
                    tape.fail(&why, &self.0.shown);
                }
                return Err(why);
            }
        }
        tape.trouble().map_or(Ok(()), Err)
    }

    /// Logs trouble when it begins, and when it has ended.
    fn tell(&self, care: &mut Care) {
        let (port, file, trouble) = (&self.0.port, self.name(), self.0.shown.trouble());
        if trouble == care.told {
            return;
        }
        match &trouble {
            Some(Trouble { why, .. }) => {
                tracing::warn!(
                    "port \"{port}\": no frames are recorded to {file}: {why}; the switch retries every second"
                );
            }
            None => {
                let lost: u64 = self.0.shown.lost().values().sum();
                tracing::info!("port \"{port}\": frames are recorded to {file} again; {lost} are not in it");
            }
        }
        care.told = trouble;
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.0.tape.lock().unwrap()
    }

    fn name(&self) -> std::path::Display<'_> {
        self.0.path.display()
    }
}
