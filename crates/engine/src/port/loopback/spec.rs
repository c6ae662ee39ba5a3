//! Settings of a loopback port.

use super::{Loop, LoopbackReceive, LoopbackTransmit};
use crate::port::Site;
use crate::port::keys::Section;
use crate::port::kind::{Capabilities, Kind, KindKeys, Opened, Registration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The kind.
pub const KIND: Registration = Registration {
    about: "returns frames that are sent to it, to try out a switch or a network function",
    capabilities: Capabilities::NONE,
    lacks: &[],
};

/// Keys of a loopback port: there are none.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Keys {}

impl KindKeys for Keys {
    type Settings = Settings;

    fn build(&self, _: &mut Section<'_>) -> Settings {
        Settings
    }
}

/// Settings of a loopback port: there are none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings;

impl Kind for Settings {
    fn open(&self, site: &Arc<dyn Site>) -> Result<Opened, String> {
        let frames = Arc::new(Loop::new().map_err(|error| format!("cannot create an eventfd: {error}"))?);
        let (receive, transmit) = (LoopbackReceive::new(frames.clone()), LoopbackTransmit::new(frames));
        site.attach(0, Box::new(receive), Box::new(transmit)).map_err(|why| why.to_string())?;
        site.set_state(true, "returns everything".into());
        Ok(Opened::with_queues())
    }
}
