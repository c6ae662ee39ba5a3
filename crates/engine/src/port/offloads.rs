//! The offloads of a port: the work on frames that its peer may leave to the switch, and takes over from it.

use super::Site;
use crate::stats::OffloadStats;
use packet::offload::Offloads;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Work on frames that the peer of a port may leave to the switch, and takes over from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum OffloadsKey {
    /// Transport checksums, and the division of long TCP and UDP messages into segments.
    Segmentation,
    /// Transport checksums.
    Checksum,
    /// None: each frame is complete.
    None,
}

impl OffloadsKey {
    fn offloads(self) -> Offloads {
        match self {
            OffloadsKey::Segmentation => Offloads::ALL,
            OffloadsKey::Checksum => Offloads::CHECKSUM,
            OffloadsKey::None => Offloads::NONE,
        }
    }
}

/// The offloads of a port as they were chosen when it opened, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) offloads: Offloads,
    why: &'static str,
}

/// The reason for which an interface offers less than was chosen.
pub(crate) const KERNEL: &str = "the kernel knows no more";

/// The reason for which less was agreed on with a backend than was chosen.
pub(crate) const BACKEND: &str = "the backend offers no more";

impl Chosen {
    /// Chooses the offloads of a port: those that its section `asks` for, else all. None if what the port does with frames requires
    /// complete ones.
    pub(crate) fn new(site: &dyn Site, asks: Option<OffloadsKey>) -> Chosen {
        let (offloads, why) = match (site.needs_complete(), asks) {
            (Some(reason), _) => (Offloads::NONE, reason),
            (None, Some(asked)) => (asked.offloads(), "as the port's section says"),
            (None, None) => (Offloads::ALL, "by default"),
        };
        Chosen { offloads, why }
    }

    /// Returns the same with what the peer allows of it, and its reason for allowing no more.
    pub(crate) fn limited(self, peer: Offloads, reason: &'static str) -> Chosen {
        if peer.has(self.offloads) { self } else { Chosen { offloads: self.offloads & peer, why: reason } }
    }

    /// Returns what users see.
    pub(crate) fn stats(&self) -> OffloadStats {
        let offered = self.offloads.names().map(str::to_owned).collect();
        OffloadStats { offered, why: self.why.to_owned(), ..OffloadStats::default() }
    }
}
