//! Techniques that can be used here.

use super::contract::Technique;
use netdev::{Link, packet_socket};
use packet::ethertype;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::path::Path;

/// Tries a technique without opening a port; returns the reason if it can't be used, with a remedy.
pub fn available(technique: Technique) -> Result<(), String> {
    match technique {
        Technique::Udp | Technique::UdpMmsg | Technique::VirtioUser => Ok(()),
        Technique::Raw | Technique::RawMmsg | Technique::Tpacket => {
            let socket = Link::named("lo").and_then(|link| packet_socket(&link, ethertype::IPV4, 0));
            socket.map(drop).map_err(|error| error.to_string())
        }
        Technique::AfXdp => match socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None) {
            Ok(_) => Ok(()),
            Err(error) => {
                Err(format!("can't open an AF_XDP socket: {error}; this needs root, and a kernel with AF_XDP"))
            }
        },
        Technique::VirtioUserDpdk => Err("ports of DPDK need a program that is linked with DPDK".to_owned()),
        Technique::Netmap if Path::new("/dev/netmap").exists() => {
            Err("this program is built without netmap, although its module is loaded".to_owned())
        }
        Technique::Netmap => Err("there is no /dev/netmap: the kernel needs netmap's module".to_owned()),
    }
}
