//! A wrapper that records every frame to a pcap file. It is added and removed only while no worker has the half.

use super::around::{AroundReceive, AroundTransmit};
use super::sink::{Nothing, Sink};
use super::zero_copy::GuestBuffers;
use super::{Receive, Sent, Transmit};
use crate::port::frames::to_vec;
use capture::Writer;
use packet::{Burst, Frames};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// A pcap file that several halves write to.
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
    pub(super) fn write(&self, frames: Frames<'_>) -> usize {
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

/// Makes `recorder`, and no other, record `half`. No worker may have the half.
pub(crate) fn record_received(half: &mut Box<dyn Receive>, recorder: Option<&Recorder>) {
    if let Some(bare) = half.unrecorded() {
        *half = bare;
    }
    if let Some(recorder) = recorder {
        let bare = std::mem::replace(half, Box::new(Nothing));
        *half = Box::new(RecordReceive { inner: bare, recorder: recorder.clone() });
    }
}

/// The same for a transmit half: records frames as they leave, joined and encapsulated.
pub(crate) fn record_sent(half: &mut Box<dyn Transmit>, recorder: Option<&Recorder>) {
    if let Some(bare) = half.unrecorded() {
        *half = bare;
    } else if let Some(inside) = half.inside() {
        return record_sent(inside, recorder);
    }
    if let Some(recorder) = recorder {
        let bare = std::mem::replace(half, Box::new(Sink));
        *half = Box::new(RecordTransmit { inner: bare, recorder: recorder.clone() });
    }
}

/// Receive half that records the frames of a queue.
struct RecordReceive {
    inner: Box<dyn Receive>,
    recorder: Recorder,
}

impl AroundReceive for RecordReceive {
    fn inner(&self) -> &dyn Receive {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Receive {
        &mut *self.inner
    }

    fn receive_through<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let any = self.inner.receive(burst);
        self.recorder.write(burst.frames());
        any
    }

    fn unrecorded_through(&mut self) -> Option<Box<dyn Receive>> {
        Some(std::mem::replace(&mut self.inner, Box::new(Nothing)))
    }
}

/// Transmit half that records frames for a queue, even if there is no room for them.
struct RecordTransmit {
    inner: Box<dyn Transmit>,
    recorder: Recorder,
}

impl AroundTransmit for RecordTransmit {
    fn inner(&self) -> &dyn Transmit {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut Box<dyn Transmit> {
        &mut self.inner
    }

    fn transmit_through(&self, frames: Frames<'_>, more: bool) -> Sent {
        self.recorder.write(frames);
        self.pass(frames, more)
    }

    fn unrecorded_through(&mut self) -> Option<Box<dyn Transmit>> {
        Some(std::mem::replace(&mut self.inner, Box::new(Sink)))
    }

    /// A recording must include frames that would go into buffers lent by the guest, so they are copied.
    fn guest_through(&self) -> Option<&GuestBuffers> {
        None
    }
}
