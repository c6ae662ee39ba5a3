//! Ports that come and go by calls, beside guests that are not affected.

use api::event::EventKind;
use api::request::{EventsFollow, PortAdd, PortDel};
use client::{Client, keys};
use e2e::live::Live;
use e2e::virtio::{Exchange, Guest, Options, Pump};
use e2e::{Home, SOON};
use lab::millrace::config::*;

/// Sends a frame to all, from an address that ends in 77.
fn say_hello(guest: &mut Guest) {
    let hello = [[0xff; 6], [2, 0, 0, 0, 0, 0x77], [0x88, 0xb5, 0, 0, 0, 0]].concat();
    assert!(guest.send(&[&[hello, vec![0; 60]].concat()], 1).unwrap());
    guest.flush();
}

/// Has ports come and go, `at_a_time` and in all at least `in_all`, in the bridge of two guests that exchange frames.
fn ports_come_and_go(at_a_time: usize, in_all: usize) {
    let live = Live::new((vhost_user("a"), vhost_user("b"), bridge("br0", ["a", "b"])));
    let guests = ["a", "b"].map(|port| Options::new(live.home.socket(port)).connect().unwrap());
    live.millrace.wait_up(&["a", "b"]);
    let pump = Pump::start(Exchange::new(guests, [1, 2], 60..=1500, 64));
    pump.wait_for(100, SOON).unwrap();
    let learned = || {
        let mut all: Vec<_> = live.millrace.macs().into_iter().map(|entry| (entry.mac, entry.port)).collect();
        all.sort();
        all
    };
    let known = learned();
    assert_eq!(known.iter().map(|(_, port)| port.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let mut client = Client::connect(&live.millrace.files().control).unwrap();
    let mut round = |number: usize| {
        let name = |index: usize| format!("p{number}-{index}");
        for index in 0..at_a_time {
            let socket = format!("{}.sock", name(index));
            let port =
                [("name", name(index)), ("driver", "vhost-user".into()), ("socket", socket), ("bridge", "br0".into())];
            client.call(&PortAdd { keys: keys(port) }).unwrap();
        }
        for index in 0..at_a_time {
            client.call(&PortDel { name: name(index) }).unwrap();
        }
    };
    // The first ones leave what later ones use again.
    round(0);
    let before = live.millrace.usage_at_rest();
    let mut rounds = 1;
    live.during(|attack| {
        while attack.continues() || rounds * at_a_time < in_all {
            round(rounds);
            rounds += 1;
            attack.strike();
        }
    });
    live.millrace.holds_no_more(before, rounds * at_a_time);
    pump.wait_for(100, SOON).unwrap();
    let tally = pump.stop().unwrap();
    assert!(tally.is_complete(), "guests of the bridge lost frames: {tally:?}");
    for (port, way) in [("a", 0), ("b", 1)] {
        let port = live.millrace.counted(port, tally.sent[way], tally.received[1 - way]);
        assert!(port.drops().is_empty(), "{:?}", port.0);
    }
    assert_eq!(learned(), known);
    assert_eq!(live.millrace.stats().ports.len(), 4);
    live.finish();
}

#[test]
fn hundreds_of_ports_come_and_go_and_nothing_else_changes() {
    ports_come_and_go(20, 300);
}

#[test]
#[ignore = "takes a minute or two; see CONTRIBUTING.md"]
fn a_thousand_ports_at_a_time_come_and_go_and_nothing_else_changes() {
    ports_come_and_go(1000, 3000);
}

#[test]
fn followers_hear_of_guests_and_of_addresses() {
    let home = Home::new();
    let millrace = home.start((vhost_user("a"), vhost_user("b"), bridge("br0", ["a", "b"])));
    let client = Client::connect(&millrace.files().control).unwrap();
    let mut events = client.follow(&EventsFollow { learned: true, ..EventsFollow::default() }).unwrap();
    // What else happens does not matter.
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
