//! What becomes of VLAN tags on the way from a mapped port to its guest.

use crate::spec::{MappingSpec, Spec, Vlan};

/// Bytes of a tag.
const TAG: i32 = 4;

/// Bytes that frames grow by on their way to the guest, or shrink by if it is negative.
pub(super) fn growth(spec: &Spec, mapping: &MappingSpec) -> i32 {
    let vlan = |name: &String| spec.ports.iter().find(|port| port.name == *name).map(|port| &port.vlan);
    match (vlan(&mapping.from), vlan(&mapping.to)) {
        _ if mapping.pass_through => 0,
        (Some(Vlan::Trunk(_)), Some(Vlan::Access(_))) => -TAG,
        (Some(Vlan::Access(_)), Some(Vlan::Trunk(_))) => TAG,
        _ => 0,
    }
}
