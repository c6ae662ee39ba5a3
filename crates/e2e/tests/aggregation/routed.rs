//! A router of the kernel between two switches, which does not know of the packets in aggregates.

use e2e::cable::{lay_cable, quiet_namespace};
use e2e::transfer::move_file;
use e2e::{Home, Millrace, wait_for};
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;

/// The VLAN of the functions, and its service chain.
const VLAN: i64 = 100;

/// The version of IP between the switches, and their addresses and the router's, by side.
struct Road {
    nodes: [&'static str; 2],
    gateways: [&'static str; 2],
}

const V4: Road = Road { nodes: ["192.0.2.1", "198.51.100.1"], gateways: ["192.0.2.254/24", "198.51.100.254/24"] };
const V6: Road =
    Road { nodes: ["2001:db8:1::1", "2001:db8:2::1"], gateways: ["2001:db8:1::fe/64", "2001:db8:2::fe/64"] };

/// Returns the address of a switch's own end.
fn mac(node: usize) -> String {
    format!("02:00:00:00:01:0{node}")
}

/// Two switches, each with a tap, and a router between them.
struct Rig {
    ends: [Namespace; 2],
    router: Namespace,
    homes: [Home; 2],
    switches: [Millrace; 2],
}

impl Rig {
    fn new(road: &Road, routed: bool) -> Result<Rig> {
        let (ends, router) = ([quiet_namespace()?, quiet_namespace()?], quiet_namespace()?);
        let sysctl = "for scope in all default; do echo 0 >/proc/sys/net/ipv6/conf/$scope/disable_ipv6; \
                      echo 1 >/proc/sys/net/ipv6/conf/$scope/forwarding; done; echo 1 >/proc/sys/net/ipv4/ip_forward";
        router.run("sh", &["-c", sysctl])?;
        for (node, end) in ends.iter().enumerate() {
            let port = format!("r{node}");
            lay_cable([&router, end], [&port, "up0"])?;
            // Its own neighbours, whose answers come from the switches.
            router.run("ip", &["link", "set", &port, "arp", "on"])?;
            router.run("ip", &["address", "add", road.gateways[node], "dev", &port, "nodad"])?;
        }
        let homes = [Home::new(), Home::new()];
        let start = |node: usize| -> Result<Millrace> {
            let link = router.run("cat", &[&format!("/sys/class/net/r{node}/address")])?;
            let hop = RawNextHop { routed: routed.into(), ..next_hop(7, link.trim(), road.nodes[1 - node]) };
            let rules = RawAggregation {
                mtu: 1500.into(),
                next_hops: [hop.into()].into_iter().collect(),
                flows: [flow(VLAN, 7).into()].into_iter().collect(),
                ..aggregation(&mac(node), road.nodes[node])
            };
            let wan = RawPort { aggregate: true.into(), ..trunk(&[VLAN], af_packet("wan", "up0")) };
            let ports = (access(VLAN, tap("nf", "nf0")), wan, bridge("br0", ["nf", "wan"]));
            Ok(homes[node].start_inside(&ends[node], (ports, rules, sleeper())))
        };
        let switches = [start(0)?, start(1)?];
        for (node, end) in ends.iter().enumerate() {
            end.run("sh", &["-c", "echo 0 >/proc/sys/net/ipv6/conf/nf0/disable_ipv6"])?;
            end.run("ip", &["link", "set", "nf0", "mtu", "9000", "up"])?;
            end.run("ip", &["address", "add", &format!("10.0.0.{}/24", node + 1), "dev", "nf0"])?;
            end.run("ip", &["address", "add", &format!("fd00::{}/64", node + 1), "dev", "nf0", "nodad"])?;
        }
        // The first aggregates are lost while the router resolves the switches' addresses.
        wait_for("the way", || ends[0].run("ping", &["-c", "1", "-W", "1", "10.0.0.2"]).ok().map(drop));
        Ok(Rig { ends, router, homes, switches })
    }

    /// Pings the other end with a payload of this size, a few times and slowly: each packet is alone.
    fn ping(&self, to: &str, size: &str, options: &[&str]) -> Result<String> {
        self.ends[0].run("ping", &[&["-c", "3", "-i", "0.02", "-W", "5", "-s", size], options, &[to]].concat())
    }
}

#[test]
fn every_packet_finds_its_way_across_a_router() -> Result<()> {
    for road in [&V4, &V6] {
        let rig = Rig::new(road, true)?;
        // The kernel fragments packets of more than 9000 bytes, and the switch those that exceed a frame to the router.
        for size in ["18", "56", "1000", "1400", "1472", "4000", "8972", "20000"] {
            rig.ping("10.0.0.2", size, &["-M", "dont"])?;
        }
        for size in ["18", "1000", "1380"] {
            rig.ping("fd00::2", size, &[])?;
        }
        // The switch tells senders of packets that must not be cut which length fits, and they send no longer ones.
        let refused = rig.ping("10.0.0.2", "1472", &["-M", "do"]).expect_err("it does not fit").to_string();
        assert!(refused.contains("Frag needed"), "{refused}");
        wait_for("an IPv6 host that has learned", || rig.ping("fd00::2", "4000", &[]).ok());
        // So does TCP.
        for (from, to, address) in [(0, 1, "10.0.0.2"), (1, 0, "10.0.0.1")] {
            move_file(&rig.homes[from], &rig.ends[from], &rig.ends[to], address)?;
        }
        for switch in &rig.switches {
            let drops = switch.port("wan").0.drops;
            // The router sends its own requests without a VLAN tag, and the trunk drops them.
            assert!(drops.keys().all(|reason| ["too-long", "vlan"].contains(&reason.as_str())), "{drops:?}");
            let [_, sent] = switch.sides("wan");
            assert_eq!(sent.aggregates, sent.frames, "nothing travels bare");
        }
        // The router sees the class of the inner packets.
        let mut seen = rig.router.command("timeout");
        seen.args(["30", "tcpdump", "-i", "r0", "-c", "1", "-nn", "-v", "udp and port 50261"]);
        seen.arg(if road.nodes[0].contains(':') { "and ip6[0:2] & 0x0ff0 = 0x0b80" } else { "and ip[1] = 0xb8" });
        let seen = std::thread::scope(|scope| {
            let tcpdump = scope.spawn(move || seen.output());
            wait_for("a packet of a voice", || {
                rig.ping("10.0.0.2", "100", &["-Q", "0xb8"]).ok();
                tcpdump.is_finished().then_some(())
            });
            tcpdump.join().unwrap()
        });
        assert!(seen.as_ref().is_ok_and(|output| output.status.success()), "{seen:?}");
        rig.switches.into_iter().for_each(Millrace::stop);
    }
    Ok(())
}
