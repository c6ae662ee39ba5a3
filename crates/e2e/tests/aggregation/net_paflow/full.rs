//! A ring that has no room for all frames of a burst: the application gets the packets back that did not leave.

use super::rig::Rig;
use e2e::stream::{Arrived, packet};
use e2e::wait_for;
use lab::Result;

const PACKETS: u64 = 5000;

/// Most packets are not joined, and so make a frame each.
const VIDS: [u16; 4] = [100, 300, 301, 302];

/// The driver of virtio has no fewer descriptors than 32, and a burst makes more frames.
const ARGUMENTS: [&str; 2] = ["--txd=32", "--burst=128"];

#[test]
fn packets_that_did_not_leave_are_sent_again_in_order() -> Result<()> {
    let mut rig = Rig::start_with(1, &ARGUMENTS)?;
    let [mut near, mut far] = rig.ends()?;
    // testpmd tries again until they leave.
    rig.testpmd.command("set burst tx delay 1 retry 4000000000")?;
    rig.testpmd.command("set fwd io retry")?;
    rig.testpmd.start()?;
    let (mut sent, mut arrived) = (0, Arrived::default());
    wait_for("all packets to arrive", || {
        far.reap().unwrap();
        while sent < PACKETS && sent - arrived.count() < 200 && far.send(&[&packet(1, sent, &VIDS)], 1).unwrap() {
            sent += 1;
        }
        far.flush();
        let take = |bytes: &[u8]| {
            arrived.take(1, &VIDS, bytes);
            Ok(())
        };
        near.receive(64, take).unwrap();
        (arrived.count() == PACKETS).then_some(())
    });
    rig.testpmd.stop()?;
    let left = rig.testpmd.named_stats()?.swap_remove(0);
    assert_eq!((left["tx_good_packets"], left["tx_alone_no-buffers"]), (PACKETS, 0), "{left:?}");
    assert!(left["tx_aggregates"] > 0 && left["tx_frames"] > PACKETS * 2 / 3, "{left:?}");
    rig.millrace.none_dropped();
    rig.stop()
}
