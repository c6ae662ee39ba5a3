//! Files that frames are recorded to.

use super::frames::to_vec;
use capture::Writer;
use packet::Frames;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// A pcap file that several queues write to.
#[derive(Clone)]
pub struct Recorder(Arc<Recording>);

struct Recording {
    path: PathBuf,
    capture: Mutex<Capture>,
}

struct Capture {
    writer: Writer<BufWriter<File>>,
    /// Reason for missing frames. After the first failed write nothing more is written, as it would be out of place.
    broken: Option<String>,
    /// Whether this was logged.
    told: bool,
}

impl Recorder {
    /// Starts a new file at `path`.
    pub fn create(path: &Path) -> std::io::Result<Recorder> {
        let writer = Writer::new(BufWriter::new(File::create(path)?), packet::MAX_FRAME)?;
        let capture = Mutex::new(Capture { writer, broken: None, told: false });
        Ok(Recorder(Arc::new(Recording { path: path.to_owned(), capture })))
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Writes frames. Returns how many were written.
    pub(crate) fn write(&self, frames: Frames<'_>) -> usize {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let capture = &mut *self.0.capture.lock().unwrap();
        let written = frames.as_slice().iter().take_while(|frame| {
            if capture.broken.is_none() {
                let taken = capture.writer.write(now, &to_vec(&frames, frame));
                capture.broken = taken.err().map(|error| error.to_string());
            }
            capture.broken.is_none()
        });
        written.count()
    }

    /// Flushes all frames written so far, so that readers of the file see them. Logs a write error once.
    pub(crate) fn keep(&self) {
        let capture = &mut *self.0.capture.lock().unwrap();
        if let Err(error) = capture.writer.flush() {
            capture.broken.get_or_insert(error.to_string());
        }
        if let Some(why) = capture.broken.as_ref().filter(|_| !capture.told) {
            tracing::error!("{}: no more frames are recorded: {why}", self.path().display());
            capture.told = true;
        }
    }
}
