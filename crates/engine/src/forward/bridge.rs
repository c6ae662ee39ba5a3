//! A bridge, as all its workers share it.

use super::flows::Numbered;
use super::mac_table::{Learning, MacTable};
use super::vlan::Membership;
use crate::spec::Vlan;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

/// A bridge, as shared by all its workers.
pub struct Bridge {
    /// Its MAC table.
    pub table: MacTable,
    /// By place: ports keep theirs while others come and go.
    pub(super) members: Vec<Membership>,
    /// Whether all ports that are there ignore tags.
    pub(super) flat: bool,
    /// Whether frames to addresses that bridges keep to themselves pass.
    pub(crate) forwards_reserved: bool,
    /// By port: frames received with an unknown destination.
    pub(super) flooded: Box<[AtomicU64]>,
    /// Port numbers for flows, if controllers decide where frames go.
    pub(crate) flows: Option<Numbered>,
}

impl Bridge {
    /// Returns a bridge of no ports.
    pub(crate) fn none() -> Arc<Bridge> {
        static NONE: LazyLock<Arc<Bridge>> =
            LazyLock::new(|| Arc::new(Bridge::of(MacTable::with_known_key(0, 0, 0), &[])));
        NONE.clone()
    }

    /// Returns a bridge with ports of these VLANs at its places, at some of which no port stands, and a `table` with room for these.
    pub(crate) fn of(table: MacTable, places: &[Option<&Vlan>]) -> Bridge {
        Bridge {
            table,
            members: places.iter().map(|vlan| vlan.map_or(Membership::Nobody, Membership::new)).collect(),
            flat: places.iter().flatten().all(|vlan| **vlan == Vlan::Ignore),
            flooded: places.iter().map(|_| AtomicU64::new(0)).collect(),
            forwards_reserved: false,
            flows: None,
        }
    }

    /// Reports whether frames of this VLAN may leave at a place.
    pub(super) fn carries(&self, place: u16, vid: u16) -> bool {
        self.members.get(usize::from(place)).is_some_and(|member| member.carries(vid))
    }

    /// Returns the number of its places.
    pub(crate) fn places(&self) -> usize {
        self.members.len()
    }

    /// Reports whether frames to this address pass no bridge (IEEE 802.1Q-2022 table 8-1). Its first byte is lowest.
    // Inlined, it costs frames to single addresses four instructions each.
    #[inline(never)]
    pub(super) fn keeps(&self, destination: u64) -> bool {
        const FIRST: u64 = 0x00_00_00_c2_80_01;
        const LAST_DIGIT: u64 = 0x0f << 40;
        destination & !LAST_DIGIT == FIRST && !self.forwards_reserved
    }

    /// Adds what `other` has counted for ports that have a `place` here. Nobody counts there any more.
    pub(crate) fn count_on_from(&self, other: &Bridge, place: impl Fn(u16) -> Option<u16>) {
        for (port, flooded) in (0..).zip(&other.flooded) {
            if let Some(place) = place(port) {
                self.flooded[usize::from(place)].fetch_add(flooded.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        if !self.table.is(&other.table) {
            self.table.count_on_from(&other.table, place);
        }
    }

    /// Returns what was learned behind a port, and how many of its frames were flooded because their destination was unknown.
    pub fn learning(&self, port: u16) -> (Learning, u64) {
        (self.table.learning(port), self.flooded[usize::from(port)].load(Ordering::Relaxed))
    }
}
