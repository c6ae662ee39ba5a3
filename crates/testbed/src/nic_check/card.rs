//! The machine's facts about a PCI device.

use serde::Serialize;
use std::fmt;
use std::path::Path;

/// A PCI device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Card {
    /// Vendor and device, as `lspci -n` shows them.
    pub id: String,
    /// Driver of the kernel that has it.
    pub kernel_driver: Option<String>,
    /// The group that the IOMMU keeps it in.
    pub iommu_group: Option<String>,
}

impl Card {
    /// Looks it up by its address; `None` if there is no such device.
    pub fn at(address: &str) -> Option<Card> {
        // The domain may be left out.
        let full = if address.matches(':').count() == 1 { format!("0000:{address}") } else { address.to_owned() };
        let directory = Path::new("/sys/bus/pci/devices").join(full);
        let id =
            |name| Some(std::fs::read_to_string(directory.join(name)).ok()?.trim().trim_start_matches("0x").to_owned());
        let target = |name| Some(std::fs::read_link(directory.join(name)).ok()?.file_name()?.to_str()?.to_owned());
        let id = format!("{}:{}", id("vendor")?, id("device")?);
        Some(Card { id, kernel_driver: target("driver"), iommu_group: target("iommu_group") })
    }
}

impl fmt::Display for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let driver = self.kernel_driver.as_deref().unwrap_or("no driver of the kernel");
        let group =
            self.iommu_group.as_ref().map_or("no IOMMU group".to_owned(), |group| format!("IOMMU group {group}"));
        write!(f, "PCI {}, {driver}, {group}", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_card_at_a_virtual_device() {
        assert_eq!(Card::at("net_null0"), None);
        assert_eq!(Card::at("ffff:ff:1f.7"), None);
    }

    #[test]
    fn a_card_is_shown_with_what_it_lacks() {
        let card = Card { id: "8086:1572".to_owned(), kernel_driver: Some("i40e".to_owned()), iommu_group: None };
        assert_eq!(card.to_string(), "PCI 8086:1572, i40e, no IOMMU group");
    }
}
