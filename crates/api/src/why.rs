//! How frames of a port reach its peers, and why so: for readers outside the switch.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A port, and the ways to its peers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PortWhy {
    /// Its name.
    pub port: String,
    /// Driver from the configuration.
    pub driver: String,
    /// Forwarding of its frames, e.g. `patch b`.
    pub forwarding: String,
    /// `auto` if the switch may choose mappings and exchanges of the port, else `off`.
    pub acceleration: String,
    /// Name of its owner, if the configuration gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The ports that its frames may go to, and that may send to it.
    pub peers: Vec<PeerWhy>,
}

/// A peer of a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeerWhy {
    /// Its name.
    pub peer: String,
    /// Who chose that frames are not copied, `auto` or `file`; `None` if all are copied.
    pub chosen_by: Option<String>,
    /// Reason for the choice, as a clause.
    pub why: String,
    /// Advice to users who want fewer frames copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The ways of frames, in both directions. One for all queues if they are copied.
    pub ways: Vec<WayWhy>,
}

/// A way of frames from one port to the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WayWhy {
    /// Where frames come from: a port, or a queue as `port.queue`.
    pub from: String,
    /// Where they go.
    pub to: String,
    /// How they go, if nothing keeps them from it.
    pub frames: Frames,
    /// Reason why they are copied at present, if they need not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// Frames that were not copied. Of ways by which all are copied, none are counted.
    pub in_place: u64,
    /// Frames that were copied.
    pub copied: u64,
    /// The same by reason, if they could have been exchanged; only reasons that occurred.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<String, u64>,
}

/// How frames get to a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Frames {
    /// The physical port fills buffers of the guest.
    ReceivedInPlace,
    /// The physical port sends from the guest's memory.
    SentInPlace,
    /// Two functions swap buffers or pages.
    Exchanged,
    /// The switch copies them once.
    #[default]
    Copied,
}

impl Frames {
    /// Returns its name for display.
    pub fn name(self) -> &'static str {
        match self {
            Frames::ReceivedInPlace => "received in place",
            Frames::SentInPlace => "sent in place",
            Frames::Exchanged => "exchanged",
            Frames::Copied => "copied",
        }
    }
}
