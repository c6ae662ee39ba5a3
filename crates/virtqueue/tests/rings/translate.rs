//! Guest address translation against a plain list of regions.

use proptest::prelude::*;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::sync::Arc;
use virtqueue::memory::{Memory, Region};

const PAGE: u64 = 4096;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn exactly_what_lies_in_one_run_is_found(
        // For each region: pages of the gap before it, and pages of the region.
        layout in prop::collection::vec((0u64..3, 1u64..4), 1..9),
        probes in prop::collection::vec((any::<prop::sample::Index>(), -2i64..3, 0u64..3 * PAGE), 1..60),
    ) {
        let file = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 64 * PAGE).unwrap();
        let file = Arc::new(file);
        let (mut end, mut offset, mut regions) = (16 * PAGE, 0, Vec::new());
        for (gap, pages) in layout {
            let (guest_addr, len) = (end + gap * PAGE, pages * PAGE);
            regions.push(Region { guest_addr, user_addr: guest_addr, len, offset, file: file.clone() });
            (end, offset) = (guest_addr + len, offset + len);
        }
        let edges: Vec<u64> =
            regions.iter().flat_map(|r| [r.guest_addr, r.guest_addr + r.len]).chain([0, 1 << 63, u64::MAX - 2]).collect();
        let is_mapped = |at: u64| regions.iter().any(|r| at.wrapping_sub(r.guest_addr) < r.len);
        let memory = Memory::map(regions.clone()).unwrap();
        for (edge, off, len) in probes {
            let addr = edge.get(&edges).wrapping_add_signed(off);
            // Checks every byte, and the first one even if `len` is zero; seams between regions are not gaps.
            let last = addr.checked_add(len.max(1) - 1);
            let whole = is_mapped(addr) && last.is_some_and(|last| (addr..=last).step_by(PAGE as usize).all(is_mapped) && is_mapped(last));
            let found = memory.translate(addr, len);
            prop_assert_eq!(found.is_some(), whole, "{:#x} {}", addr, len);
            if let (Some(found), Some(first)) = (found, memory.translate(addr, 1)) {
                prop_assert_eq!(found, first);
            }
        }
    }
}
