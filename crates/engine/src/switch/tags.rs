//! Changes of VLAN tags between a mapped port and its guest.

use crate::spec::{MappingSpec, Spec, Vlan};

/// Bytes of a tag.
const TAG: i32 = 4;

/// Returns by how many bytes frames grow on their way to the guest; negative if they shrink.
pub(super) fn growth(spec: &Spec, mapping: &MappingSpec) -> i32 {
    let vlan = |name: &String| spec.ports.iter().find(|port| port.name == *name).map(|port| &port.vlan);
    match (vlan(&mapping.from.port), vlan(&mapping.to.port)) {
        _ if mapping.pass_through => 0,
        (Some(Vlan::Trunk(_)), Some(Vlan::Access(_))) => -TAG,
        (Some(Vlan::Access(_)), Some(Vlan::Trunk(_))) => TAG,
        _ => 0,
    }
}
