//! A bridge, as all its workers share it.

use super::flows::Numbered;
use super::mac_table::{Key, Learning, MacTable, TooManyStatics};
use super::vlan::Membership;
use crate::spec::Vlan;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

/// A bridge, as shared by all its workers.
pub struct Bridge {
    /// Its MAC table.
    pub table: MacTable,
    pub(super) members: Vec<Membership>,
    /// Whether all ports ignore tags.
    pub(super) flat: bool,
    /// Whether frames to addresses that bridges keep to themselves pass.
    pub(crate) forwards_reserved: bool,
    /// By port: frames received with an unknown destination.
    pub(super) flooded: Box<[AtomicU64]>,
    /// Port numbers for flows, if controllers decide where frames go.
    pub(crate) flows: Option<Numbered>,
}

impl Bridge {
    /// Returns a bridge of ports with these VLANs. It learns at most `limit` addresses behind each port, and never the
    /// static ones.
    pub fn new(
        vlans: &[Vlan],
        limit: u32,
        ageing_seconds: u32,
        statics: &[(Key, u16)],
    ) -> Result<Bridge, TooManyStatics> {
        Ok(Bridge::of(MacTable::new(vlans.len(), limit, ageing_seconds, statics)?, vlans))
    }

    /// Returns a bridge of no ports.
    pub(crate) fn none() -> Arc<Bridge> {
        static NONE: LazyLock<Arc<Bridge>> =
            LazyLock::new(|| Arc::new(Bridge::of(MacTable::with_known_key(0, 0, 0), &[])));
        NONE.clone()
    }

    /// Returns a bridge of ports with these VLANs, and a `table` for as many ports.
    pub(crate) fn of(table: MacTable, vlans: &[Vlan]) -> Bridge {
        Bridge {
            table,
            members: vlans.iter().map(Membership::new).collect(),
            flat: vlans.iter().all(|v| *v == Vlan::Ignore),
            flooded: vlans.iter().map(|_| AtomicU64::new(0)).collect(),
            forwards_reserved: false,
            flows: None,
        }
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
        self.table.count_on_from(&other.table, place);
    }

    /// Returns what was learned behind a port, and how many of its frames were flooded because their destination was unknown.
    pub fn learning(&self, port: u16) -> (Learning, u64) {
        (self.table.learning(port), self.flooded[usize::from(port)].load(Ordering::Relaxed))
    }
}
