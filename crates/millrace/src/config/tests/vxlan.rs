//! Tests of `[port.vxlan]`.

use super::*;

fn tunnel(driver: &str, vxlan: &str) -> String {
    format!("port = [{{name='a', driver='{driver}', interface='eth1', vxlan={{{vxlan}}}}}]")
}

#[test]
fn a_tunnel_gets_its_defaults() {
    use paflow::outer::{Addresses, Checksum};
    use paflow::vxlan::{Endpoints, TunnelEnd};
    let config = valid(&tunnel("af_packet", &format!("vni=100, {ENDS}")));
    let endpoints = Endpoints {
        source: [2, 0, 0, 0, 1, 1].into(),
        destination: [2, 0, 0, 0, 1, 2].into(),
        addresses: Addresses::V4 { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into() },
        port: 4789,
        vni: 100,
        hop_limit: 64,
        checksum: Checksum::Zero,
    };
    assert_eq!(config.spec.ports[0].vxlan, TunnelEnd::new(&endpoints, 1500).ok());
    let ends = ENDS.replace("192.0.2.", "2001:db8::");
    let config = valid(&tunnel("tap", &format!("vni=0, udp-port=8472, mtu=9000, {ends}")));
    let addresses = Addresses::V6 {
        source: [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(),
        destination: [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2].into(),
    };
    let endpoints = Endpoints { addresses, port: 8472, vni: 0, checksum: Checksum::Computed, ..endpoints };
    assert_eq!(config.spec.ports[0].vxlan, TunnelEnd::new(&endpoints, 9000).ok());
}

#[test]
fn a_tunnel_is_checked() {
    for (text, wanted) in [
        (tunnel("af_packet", ENDS), "`vni` is missing; "),
        (tunnel("af_packet", &format!("vni=16777216, {ENDS}")), "`vni` cannot be 16777216; "),
        (tunnel("af_packet", "vni=1"), "`local` is missing; "),
        (
            tunnel("af_packet", &format!("vni=1, {}", ENDS.replace("ip='192.0.2.2'", "ip='192.0.2.1'"))),
            "both ends have",
        ),
        (tunnel("af_packet", &format!("vni=1, {}", ENDS.replace("192.0.2.2", "2001:db8::2"))), "there is no path from"),
        (tunnel("af_packet", &format!("vni=1, {}", ENDS.replace("192.0.2.2", "224.0.0.1"))), "224.0.0.1 is not the"),
        (
            tunnel("af_packet", &format!("vni=1, {}", ENDS.replace("02:00:00:00:01:02", "ff:ff:ff:ff:ff:ff"))),
            "ff:ff:ff",
        ),
        (
            tunnel("af_packet", &format!("vni=1, {ENDS}")).replace("eth1'", "eth1', aggregate=true"),
            "a port can't both aggregate and be the end of a tunnel; ",
        ),
        (
            tunnel("sink", &format!("vni=1, {ENDS}")).replace("interface='eth1', ", ""),
            "no tunnel can end at a port of driver sink; end it at a port towards the network: virtio-user, tap, af_packet, af_xdp",
        ),
    ] {
        let found = problems(&text);
        assert!(found.iter().any(|problem| problem.contains(wanted)), "{wanted}: {found:#?}");
    }
}
