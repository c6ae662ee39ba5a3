//! Mirrors of a mapped guest's frames: they are copied from where they lie, and go on in place.

use e2e::mapped::PASS_THROUGH;
use e2e::virtio::{Exchange, Options};
use e2e::{Home, SLEEPER};
use lab::{Result, cpu};

/// Frames each way.
const FRAMES: u64 = 2000;

#[test]
fn a_mapped_guests_frames_are_mirrored_and_pass_in_place() -> Result<()> {
    let _alone = cpu::alone();
    let outside = Home::new();
    let far = e2e::port("far") + "record-to = \"far.pcap\"\n";
    let patch = "[[patch]]\nports = [\"wan\", \"far\"]\n";
    let wire = outside.start(&[&e2e::port("wan"), &far, patch, SLEEPER].concat());
    let socket = outside.socket("wan").display().to_string();
    let home = Home::new();
    let wan = format!("[[port]]\nname = \"wan\"\ndriver = \"virtio-user\"\nsocket = \"{socket}\"\n");
    let probe = "[[port]]\nname = \"probe\"\ndriver = \"pcap\"\nrecord = \"probe.pcap\"\n";
    let mirror = "[[mirror]]\nfrom = [\"wan\"]\nto = \"probe\"\n";
    let config = [&wan, &e2e::port("fw"), probe, PASS_THROUGH, mirror, &e2e::poller()].concat();
    let millrace = home.start(&config);
    millrace.wait_up(&["wan"]);
    let guest = Options::new(home.socket("fw")).connect()?;
    let other = Options::new(outside.socket("far")).connect()?;
    millrace.wait_mapped();
    let mut exchange = Exchange::new([guest, other], [1, 2], 60..=1500, 64);
    exchange.run(FRAMES, e2e::SOON)?;
    let mapping = millrace.mapping();
    assert!(mapping.zero_copy && mapping.in_place > FRAMES / 2 && mapping.sent_in_place > 0, "{mapping:?}");
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
