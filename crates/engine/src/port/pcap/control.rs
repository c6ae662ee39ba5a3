//! An open pcap port.

use super::{Record, Replay, Survey};
use crate::drops::Reason;
use crate::port::kind::{Opened, PortControl};
use crate::port::pace::Pace;
use crate::port::record::Recorder;
use crate::port::sink::Sink;
use crate::port::{Site, TxQueue};
use std::path::Path;
use std::sync::Arc;

/// Owner of the file that the port records to, if it does.
struct Control {
    site: Arc<dyn Site>,
    recorder: Option<Recorder>,
}

impl PortControl for Control {}

impl Drop for Control {
    fn drop(&mut self) {
        // Workers have no frames for the file any more when it is closed.
        self.site.clear(1);
        self.recorder.iter().for_each(Recorder::end);
    }
}

/// A file to replay, and how.
#[derive(Clone, Copy)]
pub(super) struct Replayed<'p> {
    pub(super) path: &'p Path,
    pub(super) repeat: bool,
    pub(super) pace: Pace,
}

/// Opens the files of a port, and gives its queue to workers.
pub(super) fn open(
    replayed: Option<Replayed<'_>>,
    recorded: Option<&Path>,
    site: &Arc<dyn Site>,
) -> Result<Opened, String> {
    let replay = replayed.map(|file| replay(file, site)).transpose()?;
    let recorder = recorded.map(|path| record(path, site)).transpose()?;
    let transmit: Box<dyn TxQueue> = match &recorder {
        Some(recorder) => Box::new(Record(recorder.clone())),
        None => Box::new(Sink),
    };
    let control = Control { site: site.clone(), recorder };
    let (receive, detail) = match (replayed, replay) {
        (Some(Replayed { path, .. }), Some((replay, survey))) => (replay, tell(site, path, &survey)),
        _ => (Replay::of_nothing(), "file open".to_owned()),
    };
    site.attach(0, Box::new(receive), transmit).map_err(|why| why.to_string())?;
    site.set_state(true, detail);
    Ok(Opened::by(control))
}

fn replay(Replayed { path, repeat, pace }: Replayed<'_>, site: &Arc<dyn Site>) -> Result<(Replay, Survey), String> {
    let file = site.files().open_to_read(path, site.name());
    let replay = file.and_then(|file| Replay::read(file, repeat, pace).map_err(|error| error.to_string()));
    replay.map_err(|why| format!("cannot replay {}: {why}", path.display()))
}

/// Counts and logs the packets of a file that are not replayed, and returns that remark as the state of the port.
fn tell(site: &Arc<dyn Site>, path: &Path, survey: &Survey) -> String {
    if survey.unfit > 0 {
        site.drops().add(Reason::NotFrame, survey.unfit);
    }
    let remarks = survey.remarks();
    remarks.iter().for_each(|remark| tracing::warn!("port \"{}\": {}: {remark}", site.name(), path.display()));
    [vec![format!("file open, {} frames", survey.frames)], remarks].concat().join("; ")
}

/// Opens the file that the port records to.
fn record(path: &Path, site: &Arc<dyn Site>) -> Result<Recorder, String> {
    let recorder = Recorder::new(site.name(), path, site.files());
    site.write_to(recorder.clone());
    match recorder.renew() {
        Ok(_) => Ok(recorder),
        Err(why) => {
            // The port is opened again, with a recording of its own.
            recorder.end();
            Err(format!("cannot record to {}: {why}", path.display()))
        }
    }
}
