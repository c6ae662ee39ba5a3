//! `[dpdk]`: the DPDK of ports of driver `dpdk`.

use super::{At, Field};
use schemars::JsonSchema;
use std::ops::Range;

/// Sizes of DPDK's own memory, in mebibytes.
pub const DPDK_MEMORY: Range<u64> = 32..(1 << 20) + 1;
/// Default of `memory`.
pub const DEFAULT_DPDK_MEMORY: &str = "128M";

/// `[dpdk]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "dpdk", extend("required" = ["devices"]))]
pub struct RawDpdk {
    /// Devices that ports of driver `dpdk` may have: PCI addresses such as `"0000:3b:00.0"`, of NICs that are bound to vfio-pci, and
    /// virtual devices with their arguments, as DPDK's option `--vdev` takes them: `"net_af_packet0,iface=eth1"`.
    pub devices: Field<Vec<At<String>>>,
    /// Memory that DPDK gets when it starts, for the rings of its drivers, e.g. `"512M"` or `"1G"`: huge pages if as many are free,
    /// else usual ones. The buffers of ports are not in it.
    #[schemars(extend("default" = DEFAULT_DPDK_MEMORY))]
    pub memory: Field<String>,
}
