//! Events that guests bring about, as a follower gets them.

use api::event::EventKind;
use api::request::EventsFollow;
use client::Client;
use e2e::virtio::{Guest, Options};
use e2e::{Home, SOON};
use lab::millrace::config::*;

/// Sends a frame to all, from an address that ends in 77.
fn say_hello(guest: &mut Guest) {
    let hello = [[0xff; 6], [2, 0, 0, 0, 0, 0x77], [0x88, 0xb5, 0, 0, 0, 0]].concat();
    assert!(guest.send(&[&[hello, vec![0; 60]].concat()], 1).unwrap());
    guest.flush();
}

#[test]
fn followers_hear_of_guests_and_of_addresses() {
    let home = Home::new();
    let millrace = home.start((vhost_user("a"), vhost_user("b"), bridge("br0", ["a", "b"])));
    let client = Client::connect(&millrace.files().control).unwrap();
    let mut events = client.follow(&EventsFollow { learned: true, ..EventsFollow::default() }).unwrap();
    // Other events do not matter.
    let mut wait = |what: &str, is_wanted: &dyn Fn(&EventKind) -> bool| loop {
        let event = events.next_within(SOON).unwrap().unwrap_or_else(|| panic!("no event: {what}"));
        assert!(!matches!(event.kind, EventKind::Lost { .. }), "{event:?}");
        if is_wanted(&event.kind) {
            return event.kind;
        }
    };
    let connect = |port: &str| Options::new(home.socket(port)).connect().unwrap();
    let mut a = connect("a");
    wait("a guest at a", &|kind| *kind == EventKind::GuestConnected { port: "a".into() });
    wait("a is up", &|kind| *kind == EventKind::PortUp { port: "a".into() });
    say_hello(&mut a);
    let learned = wait("an address", &|kind| matches!(kind, EventKind::AddressLearned { .. }));
    let EventKind::AddressLearned { bridge, mac, vlan: 0, port } = learned else { panic!("{learned:?}") };
    assert!(bridge == "br0" && mac == "02:00:00:00:00:77" && port == "a");
    let mut b = connect("b");
    wait("b is up", &|kind| *kind == EventKind::PortUp { port: "b".into() });
    say_hello(&mut b);
    wait("it moves", &|kind| matches!(kind, EventKind::AddressMoved { from, port, .. } if from == "a" && port == "b"));
    drop(a);
    let down = wait("a is down", &|kind| matches!(kind, EventKind::PortDown { .. }));
    assert!(
        matches!(&down, EventKind::PortDown { port, reason } if port == "a" && reason.contains("do not run")),
        "{down:?}"
    );
    wait("the guest of a left", &|kind| matches!(kind, EventKind::GuestDisconnected { port, .. } if port == "a"));
    drop(b);
    wait("it is forgotten", &|kind| matches!(kind, EventKind::AddressForgotten { port, .. } if port == "b"));
    millrace.stop();
}
