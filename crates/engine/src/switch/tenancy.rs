//! Tenancy: which frames may be received into a mapped guest's buffers.
//!
//! In a bridge, a physical port receives frames for all ports. A guest can read all that is received into its buffers,
//! even frames for other ports. So a mapping has to say which frames may be, or frames have to be kept apart before.

use crate::spec::{MappingSpec, PortSpec, Spec, Tenancy};
use packet::MacAddr;

/// Permission for a mapping's physical port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All frames go into the guest's buffers.
    InPlace,
    /// Frames to these addresses and to groups go into the guest's buffers; others must stay out of its memory.
    Steered(Vec<MacAddr>),
    /// Frames go into buffers of the switch, for this reason.
    Copied(String),
}

/// Judges a mapping of `spec`.
pub(super) fn judge(spec: &Spec, mapping: &MappingSpec) -> Verdict {
    let aggregates = spec.ports.iter().any(|port| port.name == mapping.from.port && port.aggregate);
    if aggregates && spec.aggregation.as_ref().is_some_and(|aggregation| aggregation.relay.is_some()) {
        return Verdict::Copied(format!(
            "flows that other switches relay are taken from frames at \"{}\", which \"{}\" could write if they lay in its memory: set \
             `relay = false` in [openflow], or `aggregate = false` at \"{}\"",
            mapping.from.port, mapping.to.port, mapping.from.port,
        ));
    }
    let bridge = spec.bridges.iter().find(|bridge| bridge.ports.contains(&mapping.to.port));
    // All frames of a patched port are for the guest.
    let bridge = bridge.filter(|_| !mapping.pass_through);
    let (trusted, bridge) = match (&mapping.tenancy, bridge) {
        (Tenancy::Held(why), _) => return Verdict::Copied(why.clone()),
        (_, None) | (Tenancy::TrustAll | Tenancy::Steered, _) => return Verdict::InPlace,
        (Tenancy::SteerByMac, Some(bridge)) => {
            let own = bridge.statics.iter().filter(|entry| entry.port == mapping.to.port);
            return Verdict::Steered(own.map(|entry| entry.mac).collect());
        }
        (Tenancy::Trust(trusted), Some(bridge)) => (trusted, bridge),
    };
    let port = |name: &String| spec.ports.iter().find(|port| port.name == *name);
    let guest = port(&mapping.to.port);
    let needs_protection = |name: &String| {
        let of_owner = |port: &PortSpec| guest.is_some_and(|guest| port.is_of_group_of(guest));
        port(name).is_some_and(|port| port.driver.capabilities().has_peer && !of_owner(port))
    };
    let own = [&mapping.from.port, &mapping.to.port];
    let others = bridge.ports.iter().filter(|name| !own.contains(name) && !trusted.contains(name));
    let others: Vec<_> = others.filter(|name| needs_protection(name)).collect();
    if others.is_empty() {
        return Verdict::InPlace;
    }
    let quoted = |names: &[&String]| names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let all: Vec<_> = trusted.iter().chain(others.iter().copied()).collect();
    Verdict::Copied(format!(
        "frames for {} would be received into memory of \"{}\": set `trust = [{}]` in its [[mapping]] if they may, or the same \
         `group` at these ports, else `steering`",
        quoted(&others),
        mapping.to.port,
        quoted(&all),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{af_packet, sink, tap, vhost_user};
    use crate::spec::{AggregationSpec, BridgeSpec, Chains, Driver, PortQueues, StaticEntry};
    use std::time::Duration;

    fn guest(name: &str) -> PortSpec {
        PortSpec::new(name, Driver::VhostUser(vhost_user::Settings::at(name)))
    }

    /// Returns a mapping of `wan` to `fw`, which are in a bridge with `others`.
    fn mapping(tenancy: Tenancy, fw: PortSpec, others: Vec<PortSpec>) -> (Spec, MappingSpec) {
        let wan = PortSpec::new(
            "wan",
            Driver::AfPacket(af_packet::Settings { interface: "up0".into(), queues: 1, offloads: None }),
        );
        let ports: Vec<_> = [wan, fw].into_iter().chain(others).collect();
        let known = |end, port: &str| StaticEntry { mac: MacAddr([2, 0, 0, 0, 0, end]), vlan: 0, port: port.into() };
        let statics = vec![known(1, "fw"), known(2, "other")];
        let bridge = BridgeSpec {
            name: "br0".into(),
            ports: ports.iter().map(|port| port.name.clone()).collect(),
            ageing: Duration::from_secs(1),
            learned_limit: 4096,
            forwards_reserved: false,
            statics,
            flows: None,
        };
        let (from, to) = (PortQueues::all("wan"), PortQueues::all("fw"));
        let mapping = MappingSpec { from, to, pass_through: false, tenancy, copy_break: None };
        (Spec { ports, bridges: vec![bridge], ..Spec::default() }, mapping)
    }

    /// Judges this mapping.
    fn judged(tenancy: Tenancy, others: Vec<PortSpec>) -> Verdict {
        let (spec, mapping) = mapping(tenancy, guest("fw"), others);
        let alone = judge(&spec, &MappingSpec { pass_through: true, ..mapping.clone() });
        assert_eq!(alone, Verdict::InPlace);
        judge(&spec, &mapping)
    }

    #[test]
    fn alone_with_the_physical_port() {
        assert_eq!(judged(Tenancy::Trust(vec![]), vec![]), Verdict::InPlace);
        assert_eq!(
            judged(Tenancy::Trust(vec![]), vec![PortSpec::new("sink", Driver::Sink(sink::Settings))]),
            Verdict::InPlace
        );
    }

    #[test]
    fn a_port_that_is_not_trusted_is_named() {
        let tap = || {
            PortSpec::new("tap", Driver::Tap(tap::Settings { interface: None, mtu: None, queues: 1, offloads: None }))
        };
        let others = || vec![guest("other"), guest("third"), tap()];
        let trust = |names: &[&str]| Tenancy::Trust(names.iter().map(|&name| name.into()).collect());
        let Verdict::Copied(why) = judged(trust(&["third"]), others()) else { panic!("it is not safe") };
        assert!(why.contains("frames for \"other\", \"tap\" would be received into memory of \"fw\""), "{why}");
        assert!(why.contains("trust = [\"third\", \"other\", \"tap\"]"), "{why}");
        assert_eq!(judged(trust(&["tap", "other", "third"]), others()), Verdict::InPlace);
        for all in [Tenancy::TrustAll, Tenancy::Steered] {
            assert_eq!(judged(all, others()), Verdict::InPlace);
        }
    }

    #[test]
    fn ports_of_the_guests_owner_are_trusted() {
        let of = |group: &str, port| PortSpec { group: Some(group.into()), ..port };
        let judged = |others| {
            let (spec, mapping) = mapping(Tenancy::Trust(vec!["dns".into()]), of("g", guest("fw")), others);
            judge(&spec, &mapping)
        };
        assert_eq!(judged(vec![of("g", guest("nat")), guest("dns")]), Verdict::InPlace);
        let Verdict::Copied(why) = judged(vec![of("g", guest("nat")), of("h", guest("ids")), guest("dns")]) else {
            panic!("it is not safe")
        };
        assert!(why.contains("frames for \"ids\" would be received"), "{why}");
    }

    #[test]
    fn a_mapping_that_only_stays_copies() {
        let why = "so it is".to_owned();
        let (spec, mapping) = mapping(Tenancy::Held(why.clone()), guest("fw"), vec![]);
        for pass_through in [false, true] {
            let mapping = MappingSpec { pass_through, ..mapping.clone() };
            assert_eq!(judge(&spec, &mapping), Verdict::Copied(why.clone()));
        }
    }

    /// A guest that can write a frame that relays flows could set next hops.
    #[test]
    fn relayed_flows_are_not_received_into_a_guests_memory() {
        let judged = |aggregate, relay, pass_through| {
            let mut wan = PortSpec::new("wan", Driver::Sink(sink::Settings));
            wan.aggregate = aggregate;
            let aggregation = AggregationSpec { relay, ..aggregation() };
            let ports = vec![wan, guest("fw")];
            let spec = Spec { ports, aggregation: Some(aggregation), ..Spec::default() };
            let (from, to) = (PortQueues::all("wan"), PortQueues::all("fw"));
            judge(&spec, &MappingSpec { from, to, pass_through, tenancy: Tenancy::TrustAll, copy_break: None })
        };
        let own = Some(MacAddr([2, 0, 0, 0, 0, 9]));
        for pass_through in [false, true] {
            for (aggregate, relay) in [(false, None), (true, None), (false, own)] {
                assert_eq!(judged(aggregate, relay, pass_through), Verdict::InPlace);
            }
            let Verdict::Copied(why) = judged(true, own, pass_through) else { panic!("it is not safe") };
            assert!(why.contains("\"fw\" could write") && why.contains("`relay = false`"), "{why}");
        }
    }

    fn aggregation() -> AggregationSpec {
        AggregationSpec {
            mtu: 1500,
            chains: Chains::Vlan,
            receiver: paflow::Receiver::default(),
            mac: MacAddr([2, 0, 0, 0, 0, 9]),
            addresses: Vec::new(),
            drop_unknown: false,
            relay: None,
            next_hops: Vec::new(),
            flows: Vec::new(),
        }
    }

    #[test]
    fn only_own_addresses_are_steered() {
        let own = MacAddr([2, 0, 0, 0, 0, 1]);
        assert_eq!(judged(Tenancy::SteerByMac, vec![guest("other")]), Verdict::Steered(vec![own]));
    }
}
