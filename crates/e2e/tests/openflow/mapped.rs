//! A mapped port in a bridge with `openflow`.

use super::frames::{BROADCAST, Packet};
use super::*;
use e2e::mapped::trusted;
use lab::Result;

#[test]
fn unchanged_frames_are_delivered_in_place() -> Result<()> {
    let (home, wire) = (Home::new(), Home::new());
    let far = wire.start((patched("wan", "far"), sleeper()));
    let bridge = by_flows(bridge("br0", ["wan", "fw", "lan"]));
    let ports = (towards("wan", &wire, "wan"), vhost_user("fw"), vhost_user("lan"));
    let millrace = home.start((ports, bridge, trusted(), failing(FailMode::Secure), e2e::poller()));
    millrace.wait_up(&["wan"]);
    let [fw, lan] = guests(&home, &millrace, ["fw", "lan"]);
    let mut ends = [Options::new(wire.socket("far")).connect()?, fw, lan];
    millrace.wait_mapped();
    let back = [
        "priority=4,in_port=2,actions=output:1",
        "priority=5,in_port=2,udp,udp_dst=4,actions=push_vlan:0x8100,output:1",
    ];
    for flow in FROM_WAN.iter().chain(&back) {
        of(&home, "add-flow", &[flow]);
    }
    let udp = |port| Packet { payload: vec![port as u8; 500], ..Packet::udp(1, 2, port) };
    let [own, other, changed, back, gone] = [1, 2, 4, 5, 6].map(udp);
    let all = Packet { to: BROADCAST, ..udp(3) };
    let there = Packet { addresses: frames::Addresses::V4([192, 0, 2, 1], [198, 51, 100, 2]), ..changed.clone() };
    let in_place = || millrace.mapping().in_place - millrace.mapping().elsewhere;
    for round in 1..=200 {
        let burst = [&own, &other, &all, &changed, &back, &gone, &own].map(Packet::bytes);
        send(&mut ends[0], &burst);
        let [own, other, all, there, back] = [&own, &other, &all, &there, &back].map(Packet::bytes);
        expect(&mut ends, &[&[back], &[own.clone(), all.clone(), there, own], &[other, all]]);
        // From the guest: unchanged, and with a tag.
        let [plain, tagged] = [udp(9), udp(4)].map(|packet| Packet { from: frames::mac(2), ..packet });
        send(&mut ends[1], &[plain.bytes(), tagged.bytes()]);
        expect(&mut ends, &[&[plain.bytes(), Packet { vlan: Some(0), ..tagged }.bytes()], &[], &[]]);
        assert!(in_place() <= round * 3);
    }
    let mapping = millrace.mapping();
    assert!(in_place() > 200, "{mapping:?}");
    // The guest could change them after flows have matched them.
    assert!(mapping.sent_in_place == 0 && mapping.sent_copied >= 400, "{mapping:?}");
    assert_eq!(dropped(&millrace, "wan", "flow-drop"), 200);
    far.stop();
    millrace.stop();
    Ok(())
}
