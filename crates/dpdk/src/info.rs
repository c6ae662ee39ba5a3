//! Information about a device, its configuration, its link and its counters.

use crate::abi::{CHECKSUM, TCP4, TCP6};

/// How a device is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bus {
    /// It is software, in this process.
    Vdev,
    /// PCI.
    Pci,
    /// Another one.
    Other,
}

/// Limits of the number of descriptors of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The fewest.
    pub least: u16,
    /// The most.
    pub most: u16,
    /// The number is a multiple of this.
    pub align: u16,
}

/// Description of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// Its name in DPDK.
    pub name: String,
    /// Name of its driver, as in "net_e1000_em".
    pub driver: String,
    /// Its bus.
    pub bus: Bus,
    /// Why it can't receive into buffers of others, and what to use instead; [`Device::open`](crate::Device::open) fails with this.
    pub refusal: Option<String>,
    /// Why it should get the switch's own buffers only, and none of a guest's.
    pub own_only: Option<String>,
    /// Whether it registers memory when it starts, and reaches no other: [`Device::share`](crate::Device::share) says what follows.
    pub registers: bool,
    /// The most receive queues.
    pub receive_queues: u16,
    /// The most transmit queues.
    pub transmit_queues: u16,
    /// Limits of receive rings.
    pub receive_ring: Limits,
    /// Limits of transmit rings.
    pub transmit_ring: Limits,
    /// The greatest MTU in bytes.
    pub max_mtu: u32,
    /// The least room of a buffer in bytes.
    pub min_room: u32,
    /// Whether it sends frames of several pieces.
    pub chains: bool,
    /// Whether frames may come from this machine's kernel, or from a guest, which leave checksums unfinished.
    pub unfinished: bool,
    /// The work that it does on frames that it sends.
    pub abilities: Abilities,
}

/// Work on frames to send that devices do, as DPDK describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Abilities {
    /// Checksums of TCP and UDP.
    pub checksum: bool,
    /// Segments of TCP in IPv4.
    pub tcp4: bool,
    /// Segments of TCP in IPv6.
    pub tcp6: bool,
}

impl Abilities {
    pub(crate) fn of(flags: u16) -> Abilities {
        let has = |flag| flags & flag != 0;
        Abilities { checksum: has(CHECKSUM), tcp4: has(TCP4), tcp6: has(TCP6) }
    }

    pub(crate) fn flags(self) -> u16 {
        let all = [(self.checksum, CHECKSUM), (self.tcp4, TCP4), (self.tcp6, TCP6)];
        all.into_iter().filter(|(is_there, _)| *is_there).map(|(_, flag)| flag).sum()
    }
}

/// Set-up of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Pairs of queues.
    pub queues: u16,
    /// Descriptors of a receive ring. The device rounds it.
    pub receive_size: u16,
    /// Descriptors of a transmit ring. The device rounds it.
    pub transmit_size: u16,
    /// The MTU in bytes; `None` is the device's own.
    pub mtu: Option<u16>,
    /// Whether queues announce frames, if the driver can: see [`Receive::event`](crate::Receive::event).
    pub interrupts: bool,
    /// Whether frames are spread over the queues by their flow; without it, they go to the first, or by rules.
    pub rss: bool,
    /// Bytes for a frame in a buffer, as the device is told: it may write so many to each, but see
    /// [`Receive::least`](crate::Receive::least). Most often 2048.
    pub room: u32,
    /// Work that frames to send may leave to it, of its [`Info::abilities`].
    pub work: Abilities,
}

/// State of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Whether frames can pass.
    pub up: bool,
    /// Megabits per second, if known.
    pub speed: Option<u32>,
    /// Whether both directions can be used at once.
    pub full_duplex: bool,
}

/// Counters of a device. They begin anew when it is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Frames received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames that the device dropped, as its ring had no buffer.
    pub missed: u64,
    /// Failures to get a buffer.
    pub no_buffer: u64,
    /// Frames received with errors.
    pub receive_errors: u64,
    /// Frames that could not be sent.
    pub transmit_errors: u64,
}
