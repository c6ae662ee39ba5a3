//! Settings of a pcap port.

use super::{Record, Replay};
use crate::port::kind::{Capabilities, Kind, Opened, PathUse, Registration};
use crate::port::pace::Pace;
use crate::port::record::Recorder;
use crate::port::sink::{Nothing, Sink};
use crate::port::{Receive, Site, Transmit};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kind.
pub const KIND: Registration = Registration { name: "pcap", capabilities: Capabilities::NONE };

/// Settings of a pcap port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// File whose frames the port receives.
    pub replay: Option<PathBuf>,
    /// File that frames sent to the port go into.
    pub record: Option<PathBuf>,
    /// Replay starts again at the end of the file.
    pub repeat: bool,
    /// Rate of the replay.
    pub pace: Pace,
}

impl Kind for Settings {
    fn registration(&self) -> &'static Registration {
        &KIND
    }

    fn paths(&self) -> Vec<(PathUse, &Path)> {
        let replay = self.replay.iter().map(|path| (PathUse::Read, &**path));
        replay.chain(self.record.iter().map(|path| (PathUse::Write, &**path))).collect()
    }

    fn open(&self, site: &Arc<dyn Site>) -> Result<Opened, String> {
        let receive: Box<dyn Receive> = match &self.replay {
            Some(path) => {
                Box::new(Replay::open(path, self.repeat, self.pace).map_err(|e| format!("{}: {e}", path.display()))?)
            }
            None => Box::new(Nothing),
        };
        let transmit: Box<dyn Transmit> = match &self.record {
            Some(path) => {
                let file = Recorder::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
                site.write_to(file.clone());
                Box::new(Record(file))
            }
            None => Box::new(Sink),
        };
        site.attach(0, receive, transmit).map_err(|why| why.to_string())?;
        site.set_state(true, "file open".into());
        Ok(Opened::with_queues())
    }
}
