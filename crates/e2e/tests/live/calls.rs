//! Ports that come and go by calls, beside guests that are not affected.

use e2e::live::Live;
use e2e::virtio::Options;
use e2e::wait_for;
use lab::millrace::config::*;
use millrace::control::Client;
use serde_json::json;

/// Ports that are there at a time.
const AT_A_TIME: usize = 20;
/// Ports that come and go in all, at least.
const IN_ALL: usize = 300;

#[test]
fn hundreds_of_ports_come_and_go_and_nothing_else_changes() {
    let live = Live::new((vhost_user("a"), bridge("br0", ["a"])));
    let mut guest = Options::new(live.home.socket("a")).connect().unwrap();
    live.millrace.wait_up(&["a"]);
    let hello = [[0xff; 6], [2, 0, 0, 0, 0, 0x77], [0x88, 0xb5, 0, 0, 0, 0]].concat();
    assert!(guest.send(&[&[hello, vec![0; 60]].concat()], 1).unwrap());
    guest.flush();
    let knows = || live.millrace.macs().iter().any(|entry| entry.port == "a" && entry.mac.ends_with(":77"));
    wait_for("the guest's address to be learned", || knows().then_some(()));
    let mut client = Client::connect(&live.millrace.files().control).unwrap();
    let mut round = |number: usize| {
        let name = |index: usize| format!("p{number}-{index}");
        for index in 0..AT_A_TIME {
            let socket = format!("{}.sock", name(index));
            let port = json!({"name": name(index), "driver": "vhost-user", "socket": socket, "bridge": "br0"});
            client.call_with("port.add", json!({"keys": port})).unwrap();
        }
        for index in 0..AT_A_TIME {
            client.call_with("port.del", json!({"name": name(index)})).unwrap();
        }
    };
    // The first ones leave what later ones use again.
    round(0);
    let before = live.millrace.usage_at_rest();
    let mut rounds = 1;
    live.during(|attack| {
        while attack.continues() || rounds * AT_A_TIME < IN_ALL {
            round(rounds);
            rounds += 1;
            attack.strike();
        }
    });
    assert!(knows() && guest.is_connected());
    live.millrace.holds_no_more(before, rounds * AT_A_TIME);
    assert_eq!(live.millrace.stats().ports.len(), 3);
    live.finish();
}
