//! A wrapper that records every frame to a pcap file.

use super::around::{AroundReceive, AroundTransmit};
use super::vhost_user::VhostTransmit;
use super::{Receive, Sent, Transmit};
use crate::port::frames::to_vec;
use capture::Writer;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use virtqueue::{Burst, Frames};

/// A pcap file that several halves write to.
#[derive(Clone)]
pub struct Recorder(Arc<Mutex<Writer<BufWriter<File>>>>);

impl Recorder {
    /// Starts a new file at `path`.
    pub fn create(path: &Path) -> std::io::Result<Recorder> {
        let file = BufWriter::new(File::create(path)?);
        let writer = Writer::new(file, virtqueue::MAX_FRAME)?;
        Ok(Recorder(Arc::new(Mutex::new(writer))))
    }

    /// Writes frames; how many the file took.
    pub(super) fn write(&self, frames: Frames<'_>) -> usize {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut writer = self.0.lock().unwrap();
        let written = frames.as_slice().iter().take_while(|frame| writer.write(now, &to_vec(&frames, frame)).is_ok());
        written.count()
    }
}

/// Records what comes out of a queue.
pub struct RecordReceive {
    inner: Box<dyn Receive>,
    recorder: Recorder,
}

impl RecordReceive {
    /// Wraps `inner`.
    pub fn new(inner: Box<dyn Receive>, recorder: Recorder) -> Self {
        RecordReceive { inner, recorder }
    }
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
}

/// Records what is to go into a queue, whether there is room for it or not.
pub struct RecordTransmit {
    inner: Box<dyn Transmit>,
    recorder: Recorder,
}

impl RecordTransmit {
    /// Wraps `inner`.
    pub fn new(inner: Box<dyn Transmit>, recorder: Recorder) -> Self {
        RecordTransmit { inner, recorder }
    }
}

impl AroundTransmit for RecordTransmit {
    fn inner(&self) -> &dyn Transmit {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Transmit {
        &mut *self.inner
    }

    fn transmit_through(&self, frames: Frames<'_>, more: bool) -> Sent {
        self.recorder.write(frames);
        self.pass(frames, more)
    }

    /// Who records wants to see frames that a guest lends its buffers for, too: they are copied.
    fn guest_through(&self) -> Option<&VhostTransmit> {
        None
    }
}
