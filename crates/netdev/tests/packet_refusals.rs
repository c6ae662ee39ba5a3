//! Frames refused by a transmit ring or the kernel.

mod common;

use common::{Netns, frame, tagged, wait_for};
use netdev::{Flushed, Link, Links, PacketRx, PacketTx, PushError, RxConfig, TxConfig};

fn receiver(name: &str) -> PacketRx {
    PacketRx::open(&Link::named(name).unwrap(), 1, &RxConfig::default()).unwrap().remove(0)
}

fn sender(name: &str) -> PacketTx {
    PacketTx::open(&Link::named(name).unwrap(), &TxConfig::default()).unwrap()
}

/// Receives `count` frames, and checks that no more follow.
fn received(rx: &PacketRx, count: usize) -> Vec<Vec<u8>> {
    let frames = (0..count).map(|_| wait_for("frame", || rx.next_frame()).bytes().to_vec()).collect();
    assert!(rx.next_frame().is_none());
    frames
}

/// Sets the MTU of interface `a`.
fn with_mtu(mtu: usize) -> Link {
    let links = Links::open().unwrap();
    links.set_mtu(&links.get("a").unwrap(), mtu).unwrap()
}

#[test]
fn lengths() {
    Netns::with_veth(1500).run(|| {
        let tx = sender("a");
        assert_eq!(tx.push(&[]), Err(PushError::TooShort { len: 0 }));
        assert_eq!(tx.push(&[&frame(14, 0)[..13]]), Err(PushError::TooShort { len: 13 }));
        assert_eq!(tx.push(&[&frame(1515, 0)]), Err(PushError::TooLong { len: 1515, max: 1514 }));
        assert_eq!(tx.push(&[&frame(1000, 0), &frame(519, 0)]), Err(PushError::TooLong { len: 1519, max: 1514 }));
        assert_eq!(tx.pending(), 0);
        // Only an 802.1Q tag may exceed the MTU.
        assert_eq!(tx.push(&[&tagged(&frame(1514, 0), 0x88a8, 1)]), Err(PushError::TooLong { len: 1518, max: 1514 }));
        tx.push(&[&tagged(&frame(1514, 0), 0x8100, 1)]).unwrap();
        assert_eq!(tx.flush().unwrap(), Flushed { sent: 1, ..Flushed::default() });

        // A raised MTU takes effect once the state is set.
        let raised = with_mtu(3000);
        tx.push(&[&frame(3014, 0)]).unwrap_err();
        tx.state().set(&raised);
        tx.push(&[&frame(3014, 0)]).unwrap();
        assert_eq!(tx.push(&[&frame(3015, 0)]), Err(PushError::TooLong { len: 3015, max: 3014 }));
        tx.push(&[&tagged(&frame(3014, 0), 0x8100, 1)]).unwrap();
        // The peer, whose MTU is as before, drops them; older kernels count them as sent.
        let flushed = tx.flush().unwrap();
        assert_eq!(flushed.sent + flushed.refused, 2, "{flushed:?}");
        let tagged = tagged(&frame(3014, 0), 0x88a8, 1);
        assert_eq!(tx.push(&[&tagged]), Err(PushError::TooLong { len: 3018, max: 3014 }));
    });
}

#[test]
fn a_full_ring() {
    Netns::with_veth(1500).run(|| {
        let (tx, rx) = (sender("a"), receiver("b"));
        let slots = tx.space();
        for seed in 0..slots {
            tx.push(&[&frame(60, seed)]).unwrap();
        }
        assert_eq!(tx.space(), 0);
        assert_eq!(tx.push(&[&frame(60, 0)]), Err(PushError::Full));
        assert_eq!(tx.flush().unwrap(), Flushed { sent: slots, ..Flushed::default() });
        assert_eq!(received(&rx, slots), (0..slots).map(|seed| frame(60, seed)).collect::<Vec<_>>());
        wait_for("free slots", || (tx.space() == slots).then_some(()));
    });
}

#[test]
fn an_mtu_lowered_by_another_process() {
    Netns::with_veth(9000).run(|| {
        let (tx, rx) = (sender("a"), receiver("b"));
        with_mtu(1500);
        for round in 0..100 {
            for length in [100, 5000, 200, 6000, 7000, 300] {
                tx.push(&[&frame(length, round)]).unwrap();
            }
            assert_eq!(tx.flush().unwrap(), Flushed { sent: 3, wrong_format: 3, ..Flushed::default() });
            assert_eq!(received(&rx, 3), [100, 200, 300].map(|length| frame(length, round)));
            // SAFETY: `received` has copied the frames.
            unsafe { rx.release_shared() };
        }
        assert_eq!(tx.flush().unwrap(), Flushed::default());
    });
}

#[test]
fn frames_that_the_peer_refuses_do_not_block_the_others() {
    let netns = Netns::with_veth(9000);
    netns.ip("link set dev b mtu 1500");
    netns.run(|| {
        for bypass_qdisc in [false, true] {
            let config = TxConfig { bypass_qdisc, frame_bytes: 9018, ..TxConfig::default() };
            let tx = PacketTx::open(&Link::named("a").unwrap(), &config).unwrap();
            let rx = receiver("b");
            for length in [100, 5000, 200, 6000, 7000, 300] {
                tx.push(&[&frame(length, 0)]).unwrap();
            }
            let flushed = tx.flush().unwrap();
            // Older kernels count frames that veth drops as sent.
            assert_eq!(flushed.sent + flushed.refused, 6, "{flushed:?}");
            assert!(flushed.sent >= 3);
            assert_eq!(received(&rx, 3), [100, 200, 300].map(|length| frame(length, 0)));

            // The work of one flush is bounded; the next continues.
            for _ in 0..100 {
                tx.push(&[&frame(5000, 0)]).unwrap();
            }
            tx.push(&[&frame(400, 0)]).unwrap();
            let mut lost = 0;
            wait_for("empty ring", || {
                let flushed = tx.flush().unwrap();
                assert!(flushed.refused < 100, "all in one flush");
                lost += flushed.refused;
                (flushed.pending == 0).then_some(())
            });
            assert!(lost == 100 || lost == 0, "{lost}");
            assert_eq!(received(&rx, 1), [frame(400, 0)]);
        }
    });
}

#[test]
fn frames_for_an_interface_that_is_down_or_gone_are_lost() {
    let netns = Netns::with_veth(1500);
    let (tx, rx) = netns.run(|| (sender("a"), receiver("b")));
    let push = |count| (0..count).for_each(|seed| tx.push(&[&frame(60, seed)]).unwrap());
    let lost = |count| Flushed { link_down: count, ..Flushed::default() };

    let tell = || tx.state().set(&netns.run(|| Link::named("a").unwrap()));
    netns.ip("link set dev a down");
    tell();
    push(5);
    assert_eq!(tx.flush().unwrap(), lost(5));
    netns.ip("link set dev a up");
    tell();
    push(2);
    assert_eq!(tx.flush().unwrap().sent, 2);
    assert_eq!(received(&rx, 2), [frame(60, 0), frame(60, 1)]);
    netns.ip("link del dev a");
    push(3);
    assert_eq!(tx.flush().unwrap(), lost(3));
}
