//! What one measurement is of.

use super::pattern::Pattern;
use crate::load::TouchLevel;
use crate::programs::Ring;
use serde::{Serialize, Serializer};
use vhost_user::frontend::QueueSizes;

/// Everything that may differ from one measurement to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Setup {
    /// Which copies are made.
    pub pattern: Pattern,
    /// Format of all rings.
    pub ring: Ring,
    /// Bytes of a frame.
    pub size: u16,
    /// How much of it the network function touches, and the NIC looks at.
    pub touch: TouchLevel,
    /// Rings between the NIC and the switch, as "RX:TX".
    #[serde(serialize_with = "sizes_as_text")]
    pub physical: QueueSizes,
    /// Rings between the switch and the network function.
    #[serde(rename = "virtual", serialize_with = "sizes_as_text")]
    pub guest: QueueSizes,
}

/// Most frames on their way.
const WINDOW: u16 = 256;

impl Setup {
    /// Frames on their way at most: no ring that frames are put into is ever too full for them, so none are lost.
    pub fn window(&self) -> u16 {
        WINDOW.min(self.guest.receive).min(self.physical.transmit)
    }
}

/// Sizes as on a command line.
pub fn sizes(sizes: QueueSizes) -> String {
    format!("{}:{}", sizes.receive, sizes.transmit)
}

fn sizes_as_text<S: Serializer>(given: &QueueSizes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&sizes(*given))
}
