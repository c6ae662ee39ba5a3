//! Ports that come and go by calls, beside guests that are not affected.

use api::request::{PortAdd, PortDel};
use client::{Client, keys};
use e2e::SOON;
use e2e::live::Live;
use e2e::virtio::{Exchange, Options, Pump};
use lab::millrace::config::*;

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
