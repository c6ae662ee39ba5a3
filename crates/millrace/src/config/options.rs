//! Table of the drivers that support each option of `[[port]]`. Validation and reference documentation both read it.

use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;

/// What a port is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Driver {
    /// a guest or container that brings a virtio-net driver; the switch is the device
    #[serde(rename = "vhost-user")]
    VhostUser,
    /// another vhost-user switch; the switch is the driver
    #[serde(rename = "virtio-user")]
    VirtioUser,
    /// a tap interface of the kernel, created by the switch
    #[serde(rename = "tap")]
    Tap,
    /// an existing interface of the kernel, through a packet socket
    #[serde(rename = "af_packet")]
    AfPacket,
    /// an existing interface of the kernel, through AF_XDP sockets: its frames pass the kernel's network stack by
    #[serde(rename = "af_xdp")]
    AfXdp,
    /// capture files: replays one, records to another
    #[serde(rename = "pcap")]
    Pcap,
    /// a source of frames, for measurements
    #[serde(rename = "generator")]
    Generator,
    /// swallows and counts what it is sent
    #[serde(rename = "sink")]
    Sink,
}

impl Driver {
    /// Returns the name used in the configuration file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::VhostUser => "vhost-user",
            Self::VirtioUser => "virtio-user",
            Self::Tap => "tap",
            Self::AfPacket => "af_packet",
            Self::AfXdp => "af_xdp",
            Self::Pcap => "pcap",
            Self::Generator => "generator",
            Self::Sink => "sink",
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns the drivers that support option `key` of a port; `None` for options that every driver supports.
pub fn drivers_of(key: &str) -> Option<&'static [Driver]> {
    use Driver::{AfPacket, AfXdp, Generator, Pcap, Tap, VhostUser, VirtioUser};
    Some(match key {
        "socket" => &[VhostUser, VirtioUser],
        "socket-mode" | "socket-owner" | "socket-group" | "memory" => &[VhostUser],
        "mode" => &[VhostUser, VirtioUser, AfXdp],
        "queues" => &[VhostUser, VirtioUser, Tap, AfXdp],
        "queue-size" => &[VirtioUser, AfXdp],
        "packed" => &[VirtioUser],
        "interface" => &[Tap, AfPacket, AfXdp],
        "mtu" => &[Tap],
        "replay" | "record" | "loop" => &[Pcap],
        "rate" | "burst" => &[Pcap, Generator],
        "size" | "frames" => &[Generator],
        "mac" => &[Generator],
        _ => return None,
    })
}
