//! Stages at a shared port: its workers have their own.

use super::*;
use e2e::stream::{aggregation, exchange, joined_both_ways, network, uplink};
use e2e::wire::{Cable, wan};

/// Frames each way.
const FRAMES: u64 = 3000;

/// Each worker splits aggregates; packets of a VLAN keep their order.
#[test]
fn aggregates_are_split_by_all_workers() -> Result<()> {
    let vids: Vec<u16> = (100..104).collect();
    let homes = [Home::new(), Home::new()];
    let config = |wan, node: usize, workers| {
        let flows: Vec<_> = vids.iter().map(|&vid| (vid, 1 - node)).collect();
        let patch = patch("nf", "wan");
        (wan, vhost_user("nf"), patch, aggregation(node, &flows), workers)
    };
    let first = homes[0].start(config(network("wan"), 0, vec![sleeper()]));
    let shared = shared(&static_roles(), uplink("wan", &homes[0].socket("wan")));
    let second = homes[1].start(config(shared, 1, workers(3)));
    [&first, &second].iter().for_each(|switch| switch.wait_up(&["wan"]));
    let mut ends = [guest(&homes[0], &first, "nf")?, guest(&homes[1], &second, "nf")?];
    exchange(&mut ends, 2 * FRAMES, &vids)?;
    for switch in [&first, &second] {
        switch.none_dropped();
        let [received, sent] = switch.sides("wan");
        joined_both_ways(&received, &sent, 2 * FRAMES);
    }
    adds_up(&second, "wan", [2 * FRAMES; 2], &[0, 1, 2]);
    first.stop();
    second.stop();
    Ok(())
}

#[test]
fn a_tunnel_ends_at_a_shared_port() -> Result<()> {
    let (cable, home, far) = (Cable::new()?, Home::new(), Home::new());
    let tunnelled = |here: usize, port| {
        let end = |index: usize| RawTunnelEnd {
            mac: format!("02:00:00:00:01:0{index}").into(),
            ip: format!("192.0.2.{index}").into(),
        };
        let (local, remote) = (end(here).into(), end(3 - here).into());
        RawPort { vxlan: RawVxlan { vni: 100.into(), local, remote, ..RawVxlan::default() }.into(), ..port }
    };
    let wire = tunnelled(2, af_packet("wan", "up1"));
    let other = far.start_inside(&cable.there, (wire, vhost_user("fw"), joined(), sleeper()));
    let millrace = cable.switch(&home, tunnelled(1, shared(&static_roles(), wan())), (joined(), workers(3)));
    let ends = [guest(&home, &millrace, "fw")?, guest(&far, &other, "fw")?];
    Exchange::new(ends, [1, 2], 60..=1464, WINDOW).run(FRAMES, e2e::SOON).unwrap();
    let fw = millrace.counted("fw", FRAMES, FRAMES);
    assert!(fw.drops().is_empty(), "{:?}", fw.0);
    adds_up(&millrace, "wan", [FRAMES; 2], &[0, 1, 2]);
    millrace.stop();
    other.stop();
    Ok(())
}

#[test]
fn frames_of_a_shared_port_are_recorded_and_mirrored() -> Result<()> {
    for keys in [static_roles(), locked()] {
        let outside = Home::new();
        let far = RawPort { record_to: "far.pcap".into(), ..vhost_user("far") };
        let wire = outside.start((vhost_user("wan"), far, patch("wan", "far"), sleeper()));
        let home = Home::new();
        let wan = shared(&keys, virtio_user("wan", &outside.socket("wan")));
        let wan = RawPort { record_to: "wan.pcap".into(), ..wan };
        let probe = record("probe", "probe.pcap");
        let mirror = mirror(["wan"], "probe");
        let millrace = home.start((wan, vhost_user("fw"), probe, joined(), mirror, workers(3)));
        millrace.wait_up(&["wan"]);
        let ends = [guest(&home, &millrace, "fw")?, guest(&outside, &wire, "far")?];
        let exchange = Exchange::new(ends, [1, 2], SIZES, WINDOW);
        let mut exchange = if is(RxSharing::Locked, &keys) { exchange.in_any_order() } else { exchange };
        exchange.run(FRAMES, e2e::SOON).unwrap();
        adds_up(&millrace, "wan", [FRAMES; 2], &[0, 1, 2]);
        let probe = millrace.counted("probe", 0, 2 * FRAMES);
        assert!(probe.drops().is_empty(), "{:?}", probe.0);
        millrace.stop();
        wire.stop();
        let passed = outside.frames("far.pcap");
        assert_eq!(passed.len() as u64, 2 * FRAMES);
        for copies in ["wan.pcap", "probe.pcap"] {
            assert!(home.frames(copies) == passed, "{copies} does not have what passed the wire");
        }
    }
    Ok(())
}

/// A mirror of the guest's side gets the frames that the shared port's workers hand over, once they are sent.
#[test]
fn handed_over_frames_are_mirrored_where_they_leave() -> Result<()> {
    let (wire, home) = (Wire::start(), Home::new());
    let probe = record("probe", "probe.pcap");
    let mirror = RawMirror { direction: MirrorDirection::Out.into(), ..mirror(["fw"], "probe") };
    let fw = RawPort { record_to: "fw.pcap".into(), ..vhost_user("fw") };
    let millrace = home.start((shared(&static_roles(), wire.port(true)), fw, probe, joined(), mirror, workers(3)));
    millrace.wait_up(&["wan"]);
    Exchange::new(ends(&home, &millrace, &wire)?, [1, 2], SIZES, WINDOW).run(FRAMES, e2e::SOON).unwrap();
    millrace.counted("probe", 0, FRAMES);
    adds_up(&millrace, "wan", [FRAMES; 2], &[0, 1, 2]);
    millrace.stop();
    assert_eq!(home.frames("fw.pcap").len() as u64, 2 * FRAMES);
    Ok(())
}

/// A stage of one worker sends the frames that it held back by itself, also if no frame comes after them.
#[test]
fn frames_that_are_held_back_leave_in_the_end() -> Result<()> {
    let (wire, home) = (Wire::start(), Home::new());
    let fault = RawFault { delay: "5ms".into(), ..RawFault::default() };
    let wan = RawPort { fault: fault.into(), ..shared(&locked(), wire.port(false)) };
    let millrace = home.start((wan, vhost_user("fw"), joined(), workers(3)));
    millrace.wait_up(&["wan"]);
    let mut exchange = unordered(ends(&home, &millrace, &wire)?, [1, 2]);
    for frames in [1, 40, 1, 200] {
        exchange.run(frames, e2e::SOON).unwrap();
    }
    adds_up(&millrace, "wan", [242; 2], &[0, 1, 2]);
    millrace.stop();
    Ok(())
}
