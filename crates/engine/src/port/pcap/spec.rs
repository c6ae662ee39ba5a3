//! Settings of a pcap port.

use super::control::{self, Replayed};
use crate::port::Site;
use crate::port::keys::{BURSTS, Section, is_on};
use crate::port::kind::KindKeys;
use crate::port::kind::{Capabilities, Kind, Opened, PathUse, Registration};
use crate::port::pace::Pace;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use settings::written::Field;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kind.
pub const KIND: Registration = Registration {
    about: "capture files: replays one, records to another",
    capabilities: Capabilities { shares: true, ..Capabilities::NONE },
    lacks: &[],
};

/// Keys of a pcap port.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
#[schemars(inline)]
pub struct Keys {
    /// Capture file, pcap or pcapng, whose frames the port receives. At least one of `replay` and `record` is required.
    pub replay: Field<String>,
    /// Capture file, pcap, or named pipe that frames sent to the port are written to.
    pub record: Field<String>,
    /// Replay again from the start at the end of the file.
    #[serde(rename = "loop")]
    #[schemars(extend("default" = false))]
    pub repeat: Field<bool>,
    /// Frames per second to replay; 0 is as fast as possible.
    #[schemars(range(min = 0), extend("default" = 0))]
    pub rate: Field<i64>,
    /// Frames that are replayed at once, if there is a `rate`.
    #[schemars(range(min = BURSTS.start, max = BURSTS.end - 1), extend("default" = 1))]
    pub burst: Field<i64>,
}

impl KindKeys for Keys {
    type Settings = Settings;

    fn build(&self, section: &mut Section<'_>) -> Settings {
        let unread = section.is_unread(section.table, "replay") || section.is_unread(section.table, "record");
        if self.replay.is_none() && self.record.is_none() && !unread {
            section.checks.error(
                section.table,
                "a pcap port without `replay` and `record` does nothing",
                "add `replay = \"in.pcap\"`, `record = \"out.pcap\"` or both",
            );
        }
        if let Some(at) = self.repeat.as_ref()
            && at.value
            && self.replay.is_none()
        {
            section.error(&at.span, "there is nothing to `loop` without `replay`", "add `replay = \"in.pcap\"`");
        }
        Settings {
            replay: self.replay.as_ref().map(|at| section.checks.read_file(at)),
            record: self.record.as_ref().map(|at| section.checks.written_file(at)),
            repeat: is_on(&self.repeat),
            pace: section.pace(&self.rate, &self.burst),
        }
    }
}

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
    fn paths(&self) -> Vec<(PathUse, &Path)> {
        let replay = self.replay.iter().map(|path| (PathUse::Read, &**path));
        replay.chain(self.record.iter().map(|path| (PathUse::Write, &**path))).collect()
    }

    fn open(&self, site: &Arc<dyn Site>) -> Result<Opened, String> {
        let replayed = self.replay.as_ref().map(|path| Replayed { path, repeat: self.repeat, pace: self.pace });
        control::open(replayed, self.record.as_deref(), site)
    }
}
