//! Sockets that others remove, while guests' sessions continue.

use e2e::live::Live;
use e2e::virtio::Options;
use e2e::wait_for;
use lab::millrace::config::*;
use std::fs;

#[test]
fn removed_sockets_are_reported_and_come_back_at_a_reload() {
    let keys = VirtioUser { socket: "b.sock".into(), mode: Side::Server.into(), ..VirtioUser::default() };
    let listening = port("b", keys);
    let live = Live::new((vhost_user("a"), listening, patch("a", "b")));
    let names = ["a", "b", "c"];
    let detail = |port: &str| live.millrace.port(port).0.detail;
    for replaced in [false, true] {
        for name in names {
            fs::remove_file(live.home.socket(name)).unwrap();
        }
        if replaced {
            // A stale socket of another program.
            drop(std::os::unix::net::UnixListener::bind(live.home.socket("a")).unwrap());
        }
        for name in names {
            wait_for(&format!("word of the socket of {name}: {}", detail(name)), || {
                detail(name).contains("was removed or replaced").then_some(())
            });
        }
        live.serves();
        let report = live.millrace.reload().items();
        for name in names {
            assert!(report.contains(&format!("changed port {name} (socket made again)")), "{report:?}");
            assert!(!detail(name).contains("removed"), "{}", detail(name));
        }
        live.serves();
    }
    assert_eq!(live.millrace.reload().items()[0], "nothing changed");
    let _guest = Options::new(live.home.socket("a")).connect().unwrap();
    live.millrace.wait_up(&["a"]);
    live.finish();
}

#[test]
fn a_socket_taken_by_another_process_stays_and_the_reload_says_so() {
    let live = Live::new(patched("a", "b"));
    fs::remove_file(live.home.socket("a")).unwrap();
    let other = std::os::unix::net::UnixListener::bind(live.home.socket("a")).unwrap();
    let report = live.millrace.reload();
    assert_eq!(report.failed(), 1);
    let line = &report.items()[0];
    assert!(line.starts_with("changed port a (socket), which FAILED") && line.contains("another process"), "{line}");
    drop(other);
    assert_eq!(live.millrace.reload().items()[0], "changed port a (socket made again)");
    live.finish();
}
