//! The offsets at which the headers of a packet begin.

use super::extension_headers::{Followed, skip};
use packet::{ethertype, header_len, ip_protocol};

/// The EtherType that stands for IEEE 802.3 frames, which have a length instead; no valid length has this value.
pub(super) const NO_ETHERTYPE: u16 = 0x05ff;

/// The least EtherType: what is below is a length (IEEE 802.3 §3.2.6).
const LEAST_ETHERTYPE: u16 = 0x0600;

/// The LLC and SNAP headers in front of an EtherType (RFC 1042).
const SNAP: [u8; 6] = [0xaa, 0xaa, 3, 0, 0, 0];
/// Length of these headers and the EtherType.
pub(crate) const SNAP_LEN: usize = 8;

/// Type of the ICMPv6 message that asks for a neighbour's address (RFC 4861 §4.3).
pub(crate) const NEIGHBOUR_SOLICITATION: u8 = 135;
/// Type of the ICMPv6 message that tells a neighbour's address (RFC 4861 §4.4).
pub(crate) const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// The headers of a packet that were found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offsets {
    pub tagged: bool,
    pub ethertype: u16,
    /// Whether the type follows a SNAP header, which follows a length.
    pub snap: bool,
    /// The network header.
    pub network: usize,
    pub protocol: u8,
    /// The transport header; `None` in later fragments.
    pub transport: Option<usize>,
    /// IP version, if the network header is complete.
    pub ip: Option<u8>,
    /// Whether the bytes end in an extension header, before protocol and transport header are known.
    pub is_cut: bool,
}

/// Place of the network header behind eight tags: more are no tags.
const FURTHEST: usize = header_len::ETHERNET + 8 * header_len::VLAN_TAG;

/// The flag of IPv4 that a fragment follows.
const MORE_FRAGMENTS: u16 = 0x2000;

/// Hardware type, protocol type and lengths of ARP between IPv4 addresses on Ethernet (RFC 826).
const ARP_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// Length of such a message.
const ARP_LEN: usize = 28;

impl Offsets {
    /// Finds the headers of `packet`, behind at most eight VLAN tags and a SNAP header.
    #[inline]
    pub fn of(packet: &[u8]) -> Option<Offsets> {
        let mut found = Offsets::behind_first_tag(packet)?;
        if found.tagged {
            // The type is that of what follows all tags (Section 7.2.2.7).
            while ethertype::is_vlan(found.ethertype) && found.network < FURTHEST {
                let Some(next) = packet.get(found.network + 2..).and_then(|rest| rest.first_chunk()) else { break };
                (found.ethertype, found.network) = (u16::from_be_bytes(*next), found.network + header_len::VLAN_TAG);
            }
        }
        if found.ethertype < LEAST_ETHERTYPE {
            found = found.behind_length(packet);
        }
        Some(found.with_network(packet))
    }

    /// Does the same behind at most one tag, and without a SNAP header. The compiler makes two versions of what follows, for both
    /// places of the network header: that saves a tenth of a lookup.
    #[inline(always)]
    pub fn of_most(packet: &[u8]) -> Option<Offsets> {
        Some(Offsets::behind_first_tag(packet)?.with_network(packet))
    }

    #[inline(always)]
    fn behind_first_tag(packet: &[u8]) -> Option<Offsets> {
        let word = |at: usize| Some(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?));
        let mut found = Offsets {
            ethertype: word(header_len::MAC_ADDRESSES)?,
            network: header_len::ETHERNET,
            ..Offsets::default()
        };
        // A tag that the packet ends in is none.
        if ethertype::is_vlan(found.ethertype)
            && let Some(ethertype) = word(16)
        {
            found = Offsets { tagged: true, ethertype, network: 18, ..found };
        }
        Some(found)
    }

    /// Goes on behind a SNAP header, if one follows the length that stands instead of a type.
    #[inline(always)]
    fn behind_length(self, packet: &[u8]) -> Offsets {
        let header = packet.get(self.network..).and_then(|rest| rest.first_chunk::<SNAP_LEN>());
        match header {
            Some([start @ .., high, low]) if *start == SNAP => Offsets {
                ethertype: u16::from_be_bytes([*high, *low]),
                network: self.network + SNAP_LEN,
                snap: true,
                ..self
            },
            _ => self,
        }
    }

    /// Finds the headers from the network header on.
    #[inline(always)]
    fn with_network(mut self, packet: &[u8]) -> Offsets {
        if self.ethertype < LEAST_ETHERTYPE {
            self.ethertype = NO_ETHERTYPE;
        }
        let at = self.network;
        match self.ethertype {
            ethertype::IPV4 => {
                let Some(header) = packet.get(at..).and_then(|rest| rest.first_chunk::<{ header_len::IPV4 }>()) else {
                    return self;
                };
                let len = usize::from(header[0] & 15) * 4;
                if header[0] >> 4 != 4 || len < header_len::IPV4 {
                    return self;
                }
                self.ip = Some(4);
                self.protocol = header[9];
                let first = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
                self.transport = first.then_some(at + len);
            }
            ethertype::IPV6 => self.ipv6(packet),
            _ => {}
        }
        self
    }

    fn ipv6(&mut self, packet: &[u8]) {
        let at = self.network;
        let Some(header) = packet.get(at..).and_then(|rest| rest.first_chunk::<{ header_len::IPV6 }>()) else { return };
        if header[0] >> 4 != 6 {
            return;
        }
        self.ip = Some(6);
        let followed = skip(packet, at + header_len::IPV6, header[6], |_, _| {});
        Followed { protocol: self.protocol, at: self.transport, is_cut: self.is_cut } = followed;
    }

    /// Returns the length of an SCTP packet whose header is complete, if IP's header tells it: of a fragment it does not.
    pub fn sctp_len(&self, packet: &[u8]) -> Option<usize> {
        let (at, transport) = (self.network, self.transport?);
        let number = |at: usize| packet.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
        let is_whole = self.protocol == ip_protocol::SCTP && packet.len() >= transport + header_len::SCTP;
        let end = match self.ip? {
            4 if number(at + 6)? & MORE_FRAGMENTS == 0 => at + usize::from(number(at + 2)?),
            6 if !self.is_ipv6_fragment(packet) => at + header_len::IPV6 + usize::from(number(at + 4)?),
            _ => return None,
        };
        end.checked_sub(transport).filter(|len| is_whole && *len >= header_len::SCTP)
    }

    fn is_ipv6_fragment(&self, packet: &[u8]) -> bool {
        let (at, mut is_fragment) = (self.network, false);
        skip(packet, at + header_len::IPV6, packet[at + 6], |kind, _| is_fragment |= kind == ip_protocol::FRAGMENT);
        is_fragment
    }

    /// Reports whether it is ARP between IPv4 addresses on Ethernet.
    pub fn is_arp(&self, packet: &[u8]) -> bool {
        let message = packet.get(self.network..).and_then(|rest| rest.first_chunk::<ARP_LEN>());
        self.ethertype == ethertype::ARP && message.is_some_and(|message| message.starts_with(&ARP_IPV4))
    }

    /// Reports whether an MPLS label is there.
    pub fn is_mpls(&self, packet: &[u8]) -> bool {
        ethertype::is_mpls(self.ethertype) && packet.len() >= self.network + header_len::MPLS
    }

    /// Returns where the target's address begins in a message about a neighbour, if it is whole (RFC 4861 §4.3, §4.4).
    pub fn neighbour(&self, packet: &[u8], kind: u8) -> Option<usize> {
        let is_neighbour = matches!(kind, NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT);
        let target = self.transport.filter(|_| is_neighbour)? + 8;
        (target + 16 <= packet.len()).then_some(target)
    }

    /// Returns where the link-layer address begins that such a message has as an option: the source's in a solicitation, the target's
    /// in an advertisement (RFC 4861 §4.6.1).
    pub fn neighbour_option(&self, packet: &[u8], kind: u8) -> Option<usize> {
        let wanted = if kind == NEIGHBOUR_SOLICITATION { 1 } else { 2 };
        let mut at = self.neighbour(packet, kind)? + 16;
        // No sane packet has more options.
        for _ in 0..4 {
            let [option, len, ..] = *packet.get(at..)?.first_chunk::<8>()?;
            if option == wanted && len == 1 {
                return Some(at + 2);
            }
            at += 8 * usize::from(len.max(1));
        }
        None
    }
}
