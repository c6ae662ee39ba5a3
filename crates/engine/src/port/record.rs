//! A wrapper that records every frame to a pcap file.

use super::{Receive, Sent, Transmit, Wait};
use crate::port::frames::to_vec;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, TsResolution};
use std::fs::File;
use std::io::BufWriter;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use virtqueue::{Burst, Frames};

/// A pcap file that several halves write to.
#[derive(Clone)]
pub struct Recorder(Arc<Mutex<PcapWriter<BufWriter<File>>>>);

impl Recorder {
    /// Starts a new file at `path`.
    pub fn create(path: &Path) -> std::io::Result<Recorder> {
        let header = PcapHeader {
            snaplen: virtqueue::MAX_FRAME,
            datalink: DataLink::ETHERNET,
            ts_resolution: TsResolution::NanoSecond,
            ..PcapHeader::default()
        };
        let file = BufWriter::new(File::create(path)?);
        let writer = PcapWriter::with_header(file, header).map_err(std::io::Error::other)?;
        Ok(Recorder(Arc::new(Mutex::new(writer))))
    }

    /// Writes frames; how many the file took.
    pub(super) fn write(&self, frames: Frames<'_>) -> usize {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut writer = self.0.lock().unwrap();
        let written = frames.as_slice().iter().take_while(|frame| {
            let packet = PcapPacket::new_owned(now, frame.len(), to_vec(&frames, frame));
            writer.write_packet(&packet).is_ok()
        });
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

impl Receive for RecordReceive {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let any = self.inner.receive(burst);
        self.recorder.write(burst.frames());
        any
    }

    fn recycle(&self) {
        self.inner.recycle();
    }

    fn notify(&self) {
        self.inner.notify();
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.wake_fd()
    }

    fn arm(&self) -> Wait {
        self.inner.arm()
    }

    fn disarm(&self) {
        self.inner.disarm();
    }

    fn base(&self) -> Option<u32> {
        self.inner.base()
    }

    fn keep(&self, places: u32) {
        self.inner.keep(places);
    }

    fn release(&self, id: u16) {
        self.inner.release(id);
    }

    fn stop(&mut self) -> u64 {
        self.inner.stop()
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

impl Transmit for RecordTransmit {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        self.recorder.write(frames);
        self.inner.transmit(frames)
    }

    fn notify(&self) {
        self.inner.notify();
    }

    fn base(&self) -> Option<u32> {
        self.inner.base()
    }

    fn returned(&self, release: &mut dyn FnMut(u16)) {
        self.inner.returned(release);
    }

    fn keeps(&self) -> bool {
        self.inner.keeps()
    }

    fn recall(&self, release: &mut dyn FnMut(u16)) {
        self.inner.recall(release);
    }

    fn stop(&mut self) {
        self.inner.stop();
    }
}
