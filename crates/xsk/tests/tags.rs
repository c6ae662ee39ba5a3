//! VLAN tags that the kernel keeps beside a frame.

mod common;

use common::{Netns, PacketSocket, Station, TO, frame, frame_to, interface, steering, wait_for};
use xsk::{Attach, Attached, Groups, Redirect, RedirectConfig, Steering};

/// A customer's and a provider's tag, with a priority.
const TAGS: [(u16, u16); 2] = [(0x8100, 0x6014), (0x88a8, 9)];

fn config(attach: Attach, steering: Steering) -> RedirectConfig {
    RedirectConfig { attach, steering, tags: true, ..RedirectConfig::default() }
}

#[test]
fn tags_are_put_back_on_a_cable() {
    for (steering, attach) in [(Steering::All, Attach::Native), (steering(&[TO], Groups::None), Attach::Auto)] {
        Netns::with_veth(1500).run(|| {
            let redirect = Redirect::attach(&interface("b"), &config(attach, steering)).unwrap();
            assert!(
                redirect.puts_tags_back() && redirect.attached() == Attached::Native,
                "this test needs Linux 6.8 with BTF"
            );
            let mut b = Station::pool("b", 0);
            redirect.insert(&b.queue.rx).unwrap();
            b.fill_pool(16);
            let from = PacketSocket::open("a");
            for (protocol, control) in TAGS {
                let tagger = common::Tagger::start("a", protocol, control);
                for length in [60, 300, 1514] {
                    let sent = frame(length, 3);
                    from.send(&sent);
                    let tag = [protocol.to_be_bytes(), control.to_be_bytes()].concat();
                    assert_eq!(b.receive().1, [&sent[..12], &tag, &sent[12..]].concat());
                }
                drop(tagger);
                from.send(&frame(60, 4));
                assert_eq!(b.receive().1, frame(60, 4));
            }
        });
    }
}

#[test]
fn frames_for_the_kernel_keep_their_tags_beside_them() {
    const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 0x99];
    Netns::with_veth(1500).run(|| {
        let redirect =
            Redirect::attach(&interface("b"), &config(Attach::Native, steering(&[TO], Groups::None))).unwrap();
        let (from, at) = (PacketSocket::open("a"), PacketSocket::open("b"));
        let _tagger = common::Tagger::start("a", 0x8100, 20);
        // To another address, and to one without a socket.
        for to in [OTHER, TO] {
            from.send(&frame_to(to, 100));
            assert_eq!(wait_for("frame", || at.receive()), frame_to(to, 100));
        }
        drop(redirect);
    });
}

#[test]
fn a_generic_program_cannot_put_tags_back() {
    Netns::with_veth(1500).run(|| {
        let redirect = Redirect::attach(&interface("b"), &config(Attach::Generic, Steering::All)).unwrap();
        assert!(!redirect.puts_tags_back());
    });
}
