//! `[[mirror]]` as it is written.

use super::{At, Field};
use schemars::JsonSchema;

/// One `[[mirror]]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "mirror", extend("required" = ["from", "to"]))]
pub struct RawMirror {
    /// The ports whose frames are copied.
    #[schemars(length(min = 1))]
    pub from: Field<Vec<At<String>>>,
    /// The port that gets the copies. It must be in no patch or bridge, and not be mirrored itself.
    pub to: Field<String>,
    /// Direction of the copied frames.
    #[schemars(extend("default" = "both"))]
    pub direction: Field<MirrorDirection>,
    /// The point at which frames are copied. It makes a difference at ports with `aggregate` or `[port.vxlan]`.
    #[schemars(extend("default" = "wire"))]
    pub at: Field<MirrorPoint>,
}

/// Which frames a mirror copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum MirrorDirection {
    /// those that the ports receive and those that they send
    Both,
    /// those that the ports receive: they enter the switch
    In,
    /// those that the ports send: they leave the switch
    Out,
}

/// Where a mirror copies frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum MirrorPoint {
    /// outside the port, as they are on the wire: encapsulated, and with packets joined
    Wire,
    /// inside, as the switch forwards them
    Forward,
}
