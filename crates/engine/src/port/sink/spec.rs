//! Settings of a sink port.

use super::{Nothing, Sink};
use crate::port::Site;
use crate::port::kind::{Capabilities, Kind, Opened, Registration};
use std::sync::Arc;

/// The kind.
pub const KIND: Registration = Registration { name: "sink", capabilities: Capabilities::NONE };

/// Settings of a sink port: there are none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings;

impl Kind for Settings {
    fn registration(&self) -> &'static Registration {
        &KIND
    }

    fn open(&self, site: &Arc<dyn Site>) -> Result<Opened, String> {
        site.attach(0, Box::new(Nothing), Box::new(Sink)).map_err(|why| why.to_string())?;
        site.set_state(true, "takes everything".into());
        Ok(Opened::with_queues())
    }
}
