//! Tests of `[aggregation]`.

use super::*;

#[test]
fn aggregation_gets_its_defaults() {
    let config = valid(&format!(
        "{NETWORK}[aggregation]
mac = '02:00:00:00:00:01'
addresses = ['192.0.2.1', '2001:db8::1']
next-hop = [{{nfi=7, mac='02:00:00:00:00:02', ip='192.0.2.2'}},
            {{nfi=20000, mac='02:00:00:00:00:03', ip='2001:db8::2', port='a', source-port=1000}}]
flow = [{{sc=100, nfi=7}}, {{sc=4094, nfi=20000}}]
"
    ));
    let aggregation = config.spec.aggregation.unwrap();
    assert_eq!((aggregation.mtu, aggregation.receiver.udp_port), (1500, Some(50_261)));
    assert_eq!(aggregation.flows, [(100, 7), (4094, 20_000)]);
    let hops = aggregation.next_hops.iter().map(|hop| match hop.route.carrier {
        paflow::outer::Carrier::Udp(tunnel) => (tunnel.source_port, tunnel.checksum),
        other => panic!("{other:?}"),
    });
    assert!(hops.eq([(49_159, paflow::outer::Checksum::Zero), (1000, paflow::outer::Checksum::Computed)]));
    assert!(config.spec.ports[0].aggregate && !config.spec.ports[1].aggregate);
}

#[test]
fn aggregation_is_checked() {
    let found = problems(NETWORK);
    assert_eq!(found, ["1:45: there is nothing to aggregate for; add an [aggregation] section"]);
    let own = "mac='02:00:00:00:00:01'\naddresses=['192.0.2.1']\n";
    let hop = "{nfi=7, mac='02:00:00:00:00:02', ip='192.0.2.2'}";
    let cases = [
        (String::new(), "3:1: `mac` is missing; "),
        (String::new(), "3:1: `addresses` is missing; "),
        ("mac='01:00:00:00:00:01'".into(), "4:5: 01:00:00:00:00:01 is not the address of a single station; "),
        ("addresses=[]".into(), "4:11: the switch has no address; "),
        ("addresses=['x']".into(), "4:12: `x` is not an IP address; "),
        ("addresses=['224.0.0.1']".into(), "4:12: 224.0.0.1 is not the address of a single station; "),
        ("addresses=['192.0.2.1', '192.0.2.2']".into(), "4:25: there are two addresses of this version of IP; "),
        ("mtu=100".into(), "4:5: `mtu` cannot be 100; give a number from 256 to 9000"),
        ("udp-port=0".into(), "4:10: `udp-port` cannot be 0; "),
        ("transport='tcp'".into(), "4:11: unknown value `tcp`; known here: udp, vxlan"),
        ("next-hop=[{}]".into(), "4:11: `nfi` is missing; "),
        ("next-hop=[{nfi=0}]".into(), "4:16: `nfi` cannot be 0; "),
        (format!("{own}next-hop=[{hop}, {hop}]"), "6:66: there are two next hops 7; "),
        (format!("{own}next-hop=[{{ip='192.0.2.1'}}]"), "6:15: this is the switch's own address; "),
        (format!("{own}next-hop=[{{ip='2001:db8::2'}}]"), "6:15: the switch has no IPv6 address to send from; "),
        (format!("{own}next-hop=[{{vlan=4095}}]"), "6:17: `vlan` cannot be 4095; give a number from 1 to 4094"),
        (format!("{own}next-hop=[{{vni=1}}]"), "6:16: `vni` means nothing to transport udp; "),
        (format!("{own}transport='vxlan'\nnext-hop=[{hop}]"), "7:11: `vni` is missing; "),
        (format!("{own}next-hop=[{{port='b'}}]"), "6:17: port `b` does not aggregate; "),
        (format!("{own}next-hop=[{{port='c'}}]"), "6:17: there is no port `c`; "),
        (format!("{own}next-hop=[{hop}]\nflow=[{{sc=1, nfi=8}}]"), "7:18: there is no next hop 8; "),
        (format!("{own}next-hop=[{hop}]\nflow=[{{sc=4095, nfi=7}}]"), "7:11: `sc` cannot be 4095; "),
        (
            format!("{own}next-hop=[{hop}]\nflow=[{{sc=1, nfi=7}}, {{sc=1, nfi=7}}]"),
            "7:26: service chain 1 has two flows; ",
        ),
    ];
    for (text, expected) in cases {
        let found = problems(&format!("{NETWORK}[aggregation]\n{text}\n"));
        assert!(found.iter().any(|line| line.starts_with(expected)), "{text}: {expected}: {found:#?}");
    }
    let found = problems(&format!("{}[aggregation]\n{own}", NETWORK.replace(", aggregate=true", "")));
    assert!(found[0].starts_with("3:1: no port aggregates; "), "{found:#?}");
    let two = NETWORK.replace("driver='sink'}]", "driver='sink', aggregate=true}]");
    let found = problems(&format!("{two}[aggregation]\n{own}next-hop=[{hop}]"));
    assert!(found[0].starts_with("6:11: several ports aggregate, and packets that leave by any of them"), "{found:#?}");
    let chains =
        format!("{NETWORK}[aggregation]\n{own}service-chain-id='vni'\nnext-hop=[{hop}]\nflow=[{{sc=70000, nfi=7}}]");
    assert_eq!(valid(&chains).spec.aggregation.unwrap().flows[0].0, 70_000);
}
