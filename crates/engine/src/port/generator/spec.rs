//! Settings of a generator port.

use super::Generator;
use crate::port::Site;
use crate::port::kind::{Capabilities, Kind, Opened, Registration};
use crate::port::pace::Pace;
use crate::port::sink::Sink;
use std::sync::Arc;

/// The kind.
pub const KIND: Registration = Registration { name: "generator", capabilities: Capabilities::NONE };

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
    pub mac: Option<[u8; 6]>,
}

impl Kind for Settings {
    fn registration(&self) -> &'static Registration {
        &KIND
    }

    fn open(&self, site: &Arc<dyn Site>) -> Result<Opened, String> {
        let generator = Generator::new(self.size, self.pace, self.frames, self.mac);
        site.attach(0, Box::new(generator), Box::new(Sink)).map_err(|why| why.to_string())?;
        site.set_state(true, format!("frames of {} bytes", self.size));
        Ok(Opened::with_queues())
    }
}
