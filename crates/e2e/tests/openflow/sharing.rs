//! A port whose queue several workers share, in a bridge with `openflow`.

use super::frames::{Addresses, BROADCAST, Packet};
use super::*;
use lab::Result;

#[test]
fn flows_forward_shared_frames() -> Result<()> {
    const ROUNDS: u64 = 300;
    for way in [RxSharing::StaticRole, RxSharing::Locked] {
        let (home, wire) = (Home::new(), Home::new());
        let far = wire.start((patched("wan", "far"), sleeper()));
        let workers = [0, 1, 2].into_iter().collect();
        let wan = RawPort { rx_sharing: way.into(), workers, ..towards("wan", &wire, "wan") };
        let bridge = by_flows(bridge("br0", ["wan", "fw", "lan"]));
        let channel = failing(FailMode::Secure);
        let millrace = home.start((wan, vhost_user("fw"), vhost_user("lan"), bridge, channel, vec![sleeper(); 3]));
        millrace.wait_up(&["wan"]);
        let [fw, lan] = guests(&home, &millrace, ["fw", "lan"]);
        let mut ends = [Options::new(wire.socket("far")).connect()?, fw, lan];
        for flow in FROM_WAN {
            of(&home, "add-flow", &[flow]);
        }
        let udp = |port| Packet { payload: vec![port as u8; 500], ..Packet::udp(1, 2, port) };
        let [own, other, changed, back, gone] = [1, 2, 4, 5, 6].map(udp);
        let all = Packet { to: BROADCAST, ..udp(3) };
        let there = Packet { addresses: Addresses::V4([192, 0, 2, 1], [198, 51, 100, 2]), ..changed.clone() };
        let burst = [&own, &other, &all, &changed, &back, &gone, &own].map(Packet::bytes);
        let [own, other, all, there, back] = [&own, &other, &all, &there, &back].map(Packet::bytes);
        let to_fw = [own.clone(), all.clone(), there, own];
        for _ in 0..ROUNDS {
            send(&mut ends[0], &burst);
            expect(&mut ends, &[std::slice::from_ref(&back), &to_fw, &[other.clone(), all.clone()]]);
        }
        let wan = millrace.counted("wan", 7 * ROUNDS, ROUNDS);
        assert_eq!(wan.0.drops, [("flow-drop".to_owned(), ROUNDS)].into());
        assert_eq!(wan.0.queues[0].lanes.iter().map(|lane| lane.rx_packets).sum::<u64>(), 7 * ROUNDS);
        wait_for("the flows to be counted", || {
            let datapath = shown(&home).datapath.expect("a bridge forwards by flows");
            ((datapath.lookups, datapath.matched) == (7 * ROUNDS, 7 * ROUNDS)).then_some(())
        });
        assert_eq!(flow(&home, "in_port=1,eth_type=0x800,ip_proto=17,udp_dst=1").packets, 2 * ROUNDS);
        far.stop();
        millrace.stop();
    }
    Ok(())
}
