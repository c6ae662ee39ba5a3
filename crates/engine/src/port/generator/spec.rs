//! Settings of a generator port.

use super::Generator;
use crate::port::Site;
use crate::port::keys::{BURSTS, Section};
use crate::port::kind::KindKeys;
use crate::port::kind::{Capabilities, Kind, Opened, Registration};
use crate::port::pace::Pace;
use crate::port::sink::Sink;
use packet::MacAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use settings::written::Field;
use std::ops::Range;
use std::sync::Arc;

/// Sizes of frames, without the FCS.
const SIZES: Range<i64> = 60..9001;

/// Size by default: the usual smallest frame of measurements.
const DEFAULT_SIZE: i64 = 64;

/// The kind.
pub const KIND: Registration = Registration {
    about: "a source of frames, for measurements",
    capabilities: Capabilities { shares: true, ..Capabilities::NONE },
    lacks: &[],
};

/// Keys of a generator port.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
#[schemars(inline)]
pub struct Keys {
    /// Bytes of a frame, without the FCS.
    #[schemars(range(min = SIZES.start, max = SIZES.end - 1), extend("default" = DEFAULT_SIZE))]
    pub size: Field<i64>,
    /// Frames per second; 0 is as fast as possible.
    #[schemars(range(min = 0), extend("default" = 0))]
    pub rate: Field<i64>,
    /// Frames that are made at once, if there is a `rate`.
    #[schemars(range(min = BURSTS.start, max = BURSTS.end - 1), extend("default" = 1))]
    pub burst: Field<i64>,
    /// Frames to generate in all; 0 is no limit.
    #[schemars(range(min = 0), extend("default" = 0))]
    pub frames: Field<i64>,
    /// Source address of the frames.
    #[schemars(extend("x-default" = "made from the name of the port"))]
    pub mac: Field<String>,
}

impl KindKeys for Keys {
    type Settings = Settings;

    fn build(&self, section: &mut Section<'_>) -> Settings {
        Settings {
            size: section.number("size", &self.size, &SIZES, DEFAULT_SIZE) as u32,
            pace: section.pace(&self.rate, &self.burst),
            frames: section.limit("frames", &self.frames),
            mac: Some(section.mac(&self.mac)),
        }
    }
}

/// Settings of a generator port.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Bytes of a frame, without the FCS.
    pub size: u32,
    /// Rate of the frames.
    pub pace: Pace,
    /// Number of frames; zero for no limit.
    pub frames: u64,
    /// Source address of the frames.
    pub mac: Option<MacAddr>,
}

impl Kind for Settings {
    fn open(&self, site: &Arc<dyn Site>) -> Result<Opened, String> {
        let generator = Generator::new(self.size, self.pace, self.frames, self.mac);
        site.attach(0, Box::new(generator), Box::new(Sink)).map_err(|why| why.to_string())?;
        site.set_state(true, format!("frames of {} bytes", self.size));
        Ok(Opened::with_queues())
    }
}
