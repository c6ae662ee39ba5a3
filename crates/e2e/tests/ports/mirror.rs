//! Mirrors of a mapped guest's frames: those that it gets arrive in place, and those that it sends are copied.

use e2e::Home;
use e2e::mapped::one_wire;
use e2e::virtio::{Exchange, Options};
use lab::Result;
use lab::millrace::config::*;

/// Frames each way.
const FRAMES: u64 = 2000;

#[test]
fn a_mapped_guests_frames_are_mirrored_and_arrive_in_place() -> Result<()> {
    let outside = Home::new();
    let far = RawPort { record_to: "far.pcap".into(), ..vhost_user("far") };
    let patch = patch("wan", "far");
    let wire = outside.start((vhost_user("wan"), far, patch, sleeper()));
    let home = Home::new();
    let wan = virtio_user("wan", &outside.socket("wan"));
    let probe = record("probe", "probe.pcap");
    let mirror = mirror(["wan"], "probe");
    let config = (wan, vhost_user("fw"), probe, one_wire(), mirror, e2e::poller());
    let millrace = home.start(&config);
    millrace.wait_up(&["wan"]);
    let guest = Options::new(home.socket("fw")).connect()?;
    let other = Options::new(outside.socket("far")).connect()?;
    millrace.wait_mapped();
    let mut exchange = Exchange::new([guest, other], [1, 2], 60..=1500, 64);
    exchange.run(FRAMES, e2e::SOON)?;
    let mapping = millrace.mapping();
    assert!(mapping.zero_copy && mapping.in_place > FRAMES / 2 && mapping.sent_in_place == 0, "{mapping:?}");
    for port in ["wan", "fw", "probe"] {
        assert_eq!(millrace.port(port).dropped(), 0, "{:?}", millrace.port(port).0);
    }
    millrace.stop();
    wire.stop();
    let mirrored = home.frames("probe.pcap");
    assert_eq!(mirrored.len() as u64, 2 * FRAMES);
    assert!(mirrored == outside.frames("far.pcap"), "the copies are not what passed the wire");
    Ok(())
}
