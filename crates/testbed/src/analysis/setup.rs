//! Conditions of one measurement.

use super::pattern::Pattern;
use crate::ring_format::RingFormat;
use loadgen::load::TouchLevel;
use serde::{Serialize, Serializer};
use vhost_user::frontend::QueueSizes;

/// All conditions that may differ between measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Setup {
    /// Copy pattern.
    pub pattern: Pattern,
    /// Format of all rings.
    pub ring: RingFormat,
    /// Bytes of a frame.
    pub size: u16,
    /// How much of it the network function touches, and the NIC checks.
    pub touch: TouchLevel,
    /// Rings between the NIC and the switch, as "RX:TX".
    #[serde(serialize_with = "sizes_as_text")]
    pub physical: QueueSizes,
    /// Rings between the switch and the network function.
    #[serde(rename = "virtual", serialize_with = "sizes_as_text")]
    pub guest: QueueSizes,
}

/// Maximum number of frames in flight.
const WINDOW: u16 = 256;

impl Setup {
    /// Returns the maximum number of frames in flight: no ring for sending is ever too full for them, so none are lost.
    pub fn window(&self) -> u16 {
        WINDOW.min(self.guest.receive).min(self.physical.transmit)
    }
}

/// Formats sizes as on the command line.
pub fn sizes(sizes: QueueSizes) -> String {
    format!("{}:{}", sizes.receive, sizes.transmit)
}

fn sizes_as_text<S: Serializer>(given: &QueueSizes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&sizes(*given))
}
