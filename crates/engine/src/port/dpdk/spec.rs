//! Settings of a DPDK port.

use super::control::PortThread;
use crate::port::Site;
use crate::port::keys::{QUEUE_SIZES, QUEUES, Section};
use crate::port::kind::KindKeys;
use crate::port::kind::{Capabilities, Kind, Opened, Queues, Registration};
use crate::port::offloads::OffloadsKey;
use crate::port::steer::{Steer, SteerKeys};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use settings::written::{At, Field};
use std::ops::Range;
use std::sync::Arc;

/// Descriptors of a ring by default. A device keeps its receive ring full: it has to be shorter than that of a mapped guest, which has
/// 256 descriptors mostly.
const DEFAULT_QUEUE_SIZE: i64 = 128;

/// MTUs that a device can be given.
const MTUS: Range<i64> = 68..9601;

/// The kind.
pub const KIND: Registration = Registration {
    about: "a device of a DPDK driver, which the section [dpdk] lists: the switch drives the NIC itself, without the kernel",
    capabilities: Capabilities { lends: true, faces_network: true, has_peer: true, shares: true, ..Capabilities::NONE },
    lacks: &[("interface", "A device is named by `device`, as DPDK names it")],
};

/// Keys of a DPDK port.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
#[schemars(inline)]
pub struct Keys {
    /// Name of the device, one of `devices` of `[dpdk]`: a PCI address, or the name of a virtual device without its arguments.
    #[schemars(extend("x-default" = "required"))]
    pub device: Field<String>,
    /// Queue pairs. The device spreads flows over several ones.
    #[schemars(range(min = QUEUES.start, max = QUEUES.end - 1), extend("default" = 1))]
    pub queues: Field<i64>,
    /// Descriptors of each ring, a power of two; the driver may need another number. The device keeps its receive ring full: with a
    /// mapped guest, half as many as the guest's ring has.
    #[schemars(range(min = QUEUE_SIZES.start, max = QUEUE_SIZES.end - 1), extend("default" = DEFAULT_QUEUE_SIZE))]
    pub queue_size: Field<i64>,
    /// MTU that the device gets. Without it the device keeps its own, and the switch sends frames for an MTU of 1500.
    #[schemars(range(min = MTUS.start, max = MTUS.end - 1))]
    pub mtu: Field<i64>,
    /// Work on frames to the port that the switch leaves to the device, if that can do it (docs/offloads.md). Frames from it are complete.
    #[schemars(extend("x-default" = "all that the device can do; none if the port is mapped or changes frames"))]
    pub offloads: Field<OffloadsKey>,
    /// Map the port to guests although no IOMMU guards memory from its device, as with uio. **Unsafe**: the device writes to the machine's
    /// own addresses, so when a guest gives pages back, frames overwrite the memory of another program or of the kernel, which got the pages since.
    /// Only for guests that may do anything to the machine.
    #[schemars(extend("default" = false))]
    pub unsafe_map_without_iommu: Field<bool>,
    /// Of a port of driver `af_xdp` or `dpdk`: a rule for the NIC, which brings frames to a MAC address to a queue. The switch asks
    /// the NIC for it (as `ethtool -N` does, or by DPDK's rte_flow) and removes it when the port closes, even if the NIC had it
    /// before. `millrace ctl ports` shows the rules that the NIC refuses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steer: Vec<At<SteerKeys>>,
}

impl KindKeys for Keys {
    type Settings = Settings;

    fn build(&self, section: &mut Section<'_>) -> Settings {
        let queues = section.queues(&self.queues);
        let mtu = self.mtu.as_ref().map(|_| section.number("mtu", &self.mtu, &MTUS, 1500) as u16);
        let device = section.device(&self.device);
        Settings {
            maps_without_iommu: self.maps_without_iommu(section, &device),
            device,
            steer: SteerKeys::build_all(&self.steer, section, queues),
            queues,
            queue_size: section.queue_size(&self.queue_size, DEFAULT_QUEUE_SIZE),
            mtu,
            offloads: self.offloads.as_ref().map(|at| at.value),
        }
    }
}

impl Keys {
    fn maps_without_iommu(&self, section: &mut Section<'_>, device: &str) -> bool {
        let Some(at) = self.unsafe_map_without_iommu.as_ref().filter(|at| at.value) else { return false };
        if !device.is_empty() && !::dpdk::is_pci(device) {
            section.error(
                &at.span,
                "`unsafe-map-without-iommu` means nothing for a virtual device",
                "remove it: an IOMMU guards memory from NICs, and this device is a part of the switch",
            );
        }
        true
    }
}

/// Settings of a DPDK port.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Name of the device, with its arguments.
    pub device: String,
    /// Number of queue pairs.
    pub queues: u16,
    /// Descriptors of each ring.
    pub queue_size: u16,
    /// MTU that the device gets; unchanged if `None`.
    pub mtu: Option<u16>,
    /// Work on frames that is left to the device; as much as possible if `None`.
    pub offloads: Option<OffloadsKey>,
    /// Whether a device that no IOMMU guards memory from is mapped all the same.
    pub maps_without_iommu: bool,
    /// Rules for the NIC.
    pub steer: Vec<Steer>,
}

impl Kind for Settings {
    fn queues(&self) -> Queues {
        Queues::Fixed(self.queues)
    }

    fn steers(&self) -> Result<(), &'static str> {
        Err(
            "is of driver dpdk: the device fills buffers before the switch can steer; bring the guest's frames to a queue by [[port.steer]]",
        )
    }

    fn open(&self, site: &Arc<dyn Site>) -> Result<Opened, String> {
        PortThread::spawn(self, site.clone()).map_err(|error| format!("cannot start a thread: {error}"))
    }
}
