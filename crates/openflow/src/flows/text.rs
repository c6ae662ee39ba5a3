//! Matches and actions as text, in the syntax of `ovs-ofctl`.

use super::action::Action;
use super::instruction::Instructions;
use super::matching::Match;
use crate::keys::VLAN_PRESENT;
use crate::wire::ofp::port;
use crate::wire::{FIELDS, Field};
use packet::MacAddr;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

impl Field {
    fn name(self) -> &'static str {
        match self {
            Field::InPort => "in_port",
            Field::Metadata => "metadata",
            Field::EthDst => "eth_dst",
            Field::EthSrc => "eth_src",
            Field::EthType => "eth_type",
            Field::VlanVid => "vlan_vid",
            Field::VlanPcp => "vlan_pcp",
            Field::IpDscp => "ip_dscp",
            Field::IpEcn => "ip_ecn",
            Field::IpProto => "ip_proto",
            Field::Ipv4Src => "ip_src",
            Field::Ipv4Dst => "ip_dst",
            Field::TcpSrc => "tcp_src",
            Field::TcpDst => "tcp_dst",
            Field::UdpSrc => "udp_src",
            Field::UdpDst => "udp_dst",
            Field::SctpSrc => "sctp_src",
            Field::SctpDst => "sctp_dst",
            Field::Icmpv4Type => "icmp_type",
            Field::Icmpv4Code => "icmp_code",
            Field::ArpOp => "arp_op",
            Field::ArpSpa => "arp_spa",
            Field::ArpTpa => "arp_tpa",
            Field::ArpSha => "arp_sha",
            Field::ArpTha => "arp_tha",
            Field::Ipv6Src => "ipv6_src",
            Field::Ipv6Dst => "ipv6_dst",
            Field::Ipv6Flabel => "ipv6_label",
            Field::Icmpv6Type => "icmpv6_type",
            Field::Icmpv6Code => "icmpv6_code",
            Field::NdTarget => "nd_target",
            Field::NdSll => "nd_sll",
            Field::NdTll => "nd_tll",
            Field::MplsLabel => "mpls_label",
            Field::MplsTc => "mpls_tc",
            Field::MplsBos => "mpls_bos",
            Field::TunnelId => "tun_id",
        }
    }

    /// Formats a value or a mask of this field.
    fn show(self, value: u128) -> String {
        match self {
            Field::EthDst | Field::EthSrc | Field::ArpSha | Field::ArpTha | Field::NdSll | Field::NdTll => {
                let [.., a, b, c, d, e, f] = value.to_be_bytes();
                MacAddr([a, b, c, d, e, f]).to_string()
            }
            Field::Ipv4Src | Field::Ipv4Dst | Field::ArpSpa | Field::ArpTpa => Ipv4Addr::from(value as u32).to_string(),
            Field::Ipv6Src | Field::Ipv6Dst | Field::NdTarget => Ipv6Addr::from(value).to_string(),
            Field::InPort => show_port(value as u32),
            Field::EthType | Field::VlanVid | Field::TunnelId | Field::Metadata | Field::Ipv6Flabel => {
                format!("{value:#x}")
            }
            _ => value.to_string(),
        }
    }
}

fn show_port(number: u32) -> String {
    let name = match number {
        port::IN_PORT => "IN_PORT",
        port::TABLE => "TABLE",
        port::NORMAL => "NORMAL",
        port::FLOOD => "FLOOD",
        port::ALL => "ALL",
        port::CONTROLLER => "CONTROLLER",
        port::LOCAL => "LOCAL",
        port::ANY => "ANY",
        number => return number.to_string(),
    };
    name.to_owned()
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for field in FIELDS {
            let (value, mask) = (self.value.get(field), self.mask.get(field));
            // Fields of TCP and UDP, and of both versions of IP, share a place in keys.
            if mask == 0 || !self.has_field(field) {
                continue;
            }
            f.write_str(between)?;
            between = ",";
            let present = u128::from(VLAN_PRESENT);
            match field {
                Field::VlanVid if mask == field.all() && value & present != 0 => {
                    write!(f, "dl_vlan={}", value & 0xfff)?
                }
                _ if mask == field.all() => write!(f, "{}={}", field.name(), field.show(value))?,
                _ => write!(f, "{}={}/{}", field.name(), field.show(value), field.show(mask))?,
            }
        }
        if between.is_empty() { f.write_str("any") } else { Ok(()) }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Action::Output { port: port::CONTROLLER, max_len } => write!(f, "CONTROLLER:{max_len}"),
            Action::Output { port, .. } if port <= port::MAX => write!(f, "output:{port}"),
            Action::Output { port, .. } => f.write_str(&show_port(port)),
            Action::Group(id) => write!(f, "group:{id}"),
            Action::PushVlan(ethertype) => write!(f, "push_vlan:{ethertype:#x}"),
            Action::PopVlan => f.write_str("pop_vlan"),
            Action::PushMpls(ethertype) => write!(f, "push_mpls:{ethertype:#x}"),
            Action::PopMpls(ethertype) => write!(f, "pop_mpls:{ethertype:#x}"),
            Action::SetMplsTtl(ttl) => write!(f, "set_mpls_ttl({ttl})"),
            Action::DecMplsTtl => f.write_str("dec_mpls_ttl"),
            Action::SetIpTtl(ttl) => write!(f, "mod_nw_ttl:{ttl}"),
            Action::DecIpTtl => f.write_str("dec_ttl"),
            Action::CopyTtlOut => f.write_str("copy_ttl_out"),
            Action::CopyTtlIn => f.write_str("copy_ttl_in"),
            Action::SetField(field, value) => write!(f, "set_field:{}->{}", field.show(value), field.name()),
            Action::SetNfi(nfi) => write!(f, "write_metadata:{nfi}"),
        }
    }
}

impl fmt::Display for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |actions: &[Action]| actions.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let mut parts: Vec<String> = self.meter.iter().map(|id| format!("meter:{id}")).collect();
        if !self.applied.is_empty() {
            parts.push(list(&self.applied));
        }
        if self.clears {
            parts.push("clear_actions".to_owned());
        }
        if !self.written.is_empty() {
            parts.push(format!("write_actions({})", list(&self.written)));
        }
        if let Some((value, mask)) = self.metadata {
            let mask = if mask == u64::MAX { String::new() } else { format!("/{mask:#x}") };
            parts.push(format!("write_metadata:{value:#x}{mask}"));
        }
        parts.extend(self.next.map(|table| format!("goto_table:{table}")));
        if parts.is_empty() { f.write_str("drop") } else { f.write_str(&parts.join(",")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_and_actions_read_as_in_ovs_ofctl() {
        let all = u128::MAX;
        let tcp = Match::any()
            .with(Field::InPort, 3, all)
            .with(Field::EthDst, 0x0200_0000_0001, 0xffff_0000_0000)
            .with(Field::EthType, 0x0800, all)
            .with(Field::VlanVid, 0x1064, all)
            .with(Field::IpProto, 6, all)
            .with(Field::Ipv4Dst, 0x0a00_0000, 0xff00_0000)
            .with(Field::TcpDst, 80, all);
        assert_eq!(
            tcp.to_string(),
            "in_port=3,eth_dst=02:00:00:00:00:00/ff:ff:00:00:00:00,eth_type=0x800,dl_vlan=100,ip_proto=6,\
             ip_dst=10.0.0.0/255.0.0.0,tcp_dst=80"
        );
        assert_eq!(Match::any().with(Field::VlanVid, 0x1000, 0x1000).to_string(), "vlan_vid=0x1000/0x1000");
        assert_eq!(Match::any().to_string(), "any");
        let actions = [
            Action::Output { port: 2, max_len: 0 },
            Action::Output { port: port::CONTROLLER, max_len: 128 },
            Action::Output { port: port::NORMAL, max_len: 0 },
            Action::PushVlan(0x8100),
            Action::SetField(Field::Ipv6Src, 1),
            Action::PopVlan,
        ];
        assert_eq!(
            actions.map(|action| action.to_string()).join(","),
            "output:2,CONTROLLER:128,NORMAL,push_vlan:0x8100,set_field:::1->ipv6_src,pop_vlan"
        );
    }
}
