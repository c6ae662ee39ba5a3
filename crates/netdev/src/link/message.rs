//! Conversion of netlink messages to interfaces.

use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};

use super::interface::Link;
use packet::MacAddr;

impl From<LinkMessage> for Link {
    fn from(message: LinkMessage) -> Self {
        let flags = message.header.flags;
        let mut link = Link {
            index: message.header.index,
            name: String::new(),
            mac: MacAddr::default(),
            mtu: 0,
            is_up: flags.contains(LinkFlags::Up),
            has_carrier: flags.contains(LinkFlags::Up | LinkFlags::LowerUp),
            is_elsewhere: false,
            hardware: message.header.link_layer_type.into(),
        };
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name = name,
                LinkAttribute::Mtu(mtu) => link.mtu = mtu as usize,
                // Other kinds of interfaces have addresses of other lengths.
                LinkAttribute::Address(bytes) => {
                    link.mac = bytes.try_into().map_or_else(|_| MacAddr::default(), MacAddr)
                }
                _ => {}
            }
        }
        link
    }
}
