//! Settings of a sink port.

use super::{Nothing, Sink};
use crate::port::Site;
use crate::port::keys::Section;
use crate::port::kind::KindKeys;
use crate::port::kind::{Capabilities, Kind, Opened, Registration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The kind.
pub const KIND: Registration =
    Registration { about: "drops and counts the frames that it is sent", capabilities: Capabilities::NONE, lacks: &[] };

/// Keys of a sink port: there are none.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
#[schemars(inline)]
pub struct Keys {}

impl KindKeys for Keys {
    type Settings = Settings;

    fn build(&self, _: &mut Section<'_>) -> Settings {
        Settings
    }
}

/// Settings of a sink port: there are none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings;

impl Kind for Settings {
    fn open(&self, site: &Arc<dyn Site>) -> Result<Opened, String> {
        site.attach(0, Box::new(Nothing), Box::new(Sink)).map_err(|why| why.to_string())?;
        site.set_state(true, "takes everything".into());
        Ok(Opened::with_queues())
    }
}
