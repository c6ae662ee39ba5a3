//! Ports as controllers see them (Section 7.2.1).

use super::message::Put;
use super::ofp::port_config;
use crate::time::Millis;
use packet::MacAddr;
use std::collections::BTreeMap;

/// Length of the port name field, with a terminating zero.
const NAME_LEN: usize = 16;
const LINK_DOWN: u32 = 1;
const LIVE: u32 = 4;

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its number: 1 to 0xffffff00.
    pub number: u32,
    /// Its MAC address.
    pub mac: MacAddr,
    /// Its name, cut to 15 bytes on the wire.
    pub name: String,
    /// Whether frames can go out.
    pub up: bool,
    /// Its speed in kilobits per second; 0 if it has none.
    pub speed: u32,
    /// Whether controllers can configure it.
    pub configurable: bool,
}

/// Restrictions that controllers put on a port: bits of [`crate::ofp::port_config`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortConfig(pub u32);

impl PortConfig {
    /// Returns the names of its bits, as in the specification.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [
            (port_config::DOWN, "PORT_DOWN"),
            (port_config::NO_RECV, "NO_RECV"),
            (port_config::NO_FWD, "NO_FWD"),
            (port_config::NO_PACKET_IN, "NO_PACKET_IN"),
        ];
        all.into_iter().filter(move |(bit, _)| self.0 & bit != 0).map(|(_, name)| name)
    }

    /// Reports whether packets that the port receives are taken.
    #[inline(always)]
    pub fn receives(self) -> bool {
        self.0 & (port_config::DOWN | port_config::NO_RECV) == 0
    }

    /// Reports whether packets are sent out of the port.
    #[inline(always)]
    pub fn sends(self) -> bool {
        self.0 & (port_config::DOWN | port_config::NO_FWD) == 0
    }

    /// Reports whether controllers get packets that the port receives and that match no flow but the table-miss flow. Other flows send
    /// them packets in any case (Section 7.2.1).
    pub fn shows_misses(self) -> bool {
        self.0 & port_config::NO_PACKET_IN == 0
    }

    /// Reports whether the port is live if its link is up: whether it forwards does not matter (Section 6.5).
    pub fn may_be_live(self) -> bool {
        self.0 & port_config::DOWN == 0
    }
}

impl Port {
    /// Appends an `ofp_port`.
    pub(crate) fn write(&self, config: PortConfig, out: &mut Vec<u8>) {
        out.u32(self.number);
        out.zeros(4);
        out.put(&self.mac.0);
        out.zeros(2);
        let mut name = [0; NAME_LEN];
        let bytes = self.name.bytes().take(NAME_LEN - 1);
        name.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        out.put(&name);
        out.u32(config.0);
        out.u32(if !self.up {
            LINK_DOWN
        } else if config.may_be_live() {
            LIVE
        } else {
            0
        });
        // Their features are unknown.
        (0..4).for_each(|_| out.u32(0));
        out.u32(self.speed);
        out.u32(self.speed);
    }
}

/// The counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // The names say it.
pub struct PortStats {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_dropped: u64,
    pub tx_dropped: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
}

/// A port of the switch, with its configuration, and its counters since it was added.
#[derive(Clone, Debug)]
pub(crate) struct Attached {
    pub port: Port,
    pub config: PortConfig,
    pub stats: PortStats,
    pub since: Millis,
}

impl Attached {
    /// Appends an `ofp_port_stats`.
    pub fn write_stats(&self, out: &mut Vec<u8>, now: Millis) {
        let stats = &self.stats;
        out.u32(self.port.number);
        out.zeros(4);
        for count in [stats.rx_packets, stats.tx_packets, stats.rx_bytes, stats.tx_bytes] {
            out.u64(count);
        }
        for count in [stats.rx_dropped, stats.tx_dropped, stats.rx_errors, stats.tx_errors] {
            out.u64(count);
        }
        // Frame, overrun and CRC errors and collisions are not counted separately.
        (0..4).for_each(|_| out.u64(0));
        write_duration(out, now.saturating_sub(self.since));
    }
}

/// The switch's ports, by number.
pub(crate) type Ports = BTreeMap<u32, Attached>;

/// Appends a duration as seconds and nanoseconds.
pub(crate) fn write_duration(out: &mut Vec<u8>, duration: Millis) {
    out.u32((duration / 1000) as u32);
    out.u32((duration % 1000 * 1_000_000) as u32);
}
