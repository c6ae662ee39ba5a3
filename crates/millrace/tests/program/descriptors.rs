//! A switch that may have few descriptors, and is to have many ports.

use super::{ctl, end, files, start_by, text};
use api::port::PortSummary;
use lab::millrace::Start;
use lab::millrace::config::{bridge, vhost_user};
use rustix::process::Signal;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

#[test]
fn excess_ports_are_named_in_one_line_and_the_control_socket_works() {
    let directory = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_millrace");
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -Sn 50; ulimit -Hn 100; exec \"$0\" \"$@\"", program]);
    let names: Vec<_> = (0..100).map(|number| format!("p{number}")).collect();
    let joined = |names: &[String]| {
        let ports: Vec<_> = names.iter().map(|name| vhost_user(name)).collect();
        (ports, bridge("br", names.iter().map(String::as_str)))
    };
    let mut switch = start_by(Start::new(Path::new(program)).by(limited), directory.path(), joined(&names));
    let ports = || -> Vec<PortSummary> { serde_json::from_slice(&ctl(&switch, &["ports", "--json"]).stdout).unwrap() };
    let of_detail = |word: &str| ports().iter().filter(|port| port.detail.contains(word)).count();
    let (open, lacking) = (of_detail("no guest is connected"), of_detail("raise the hard limit (LimitNOFILE="));
    assert!(open > 10 && open + lacking == 100, "{open} and {lacking}");
    let log = switch.daemon.log().since(0);
    assert!(log.len() < 10, "{log:?}");
    let word = format!("ports p{open}, p{}, p{} and {} others could not be opened", open + 1, open + 2, lacking - 3);
    assert_eq!(log.iter().filter(|line| line.contains(&word)).count(), 1, "{word}: {log:?}");

    // Frontends and clients that take what is left do not keep others from asking.
    let connect = |name: &str| UnixStream::connect(directory.path().join(name)).unwrap();
    let _frontends: Vec<_> = names[..open].iter().map(|name| connect(&format!("{name}.sock"))).collect();
    let _clients: Vec<_> = (0..4).map(|_| connect("c.sock")).collect();
    for _ in 0..20 {
        assert_eq!(ports().len(), 100);
    }
    files(directory.path()).configure(joined(&names[..10])).unwrap();
    let reload = ctl(&switch, &["reload"]);
    assert!(reload.status.success(), "{reload:?}");
    files(directory.path()).configure(joined(&names[..20])).unwrap();
    let reload = text(&ctl(&switch, &["reload"]).stdout);
    assert!(reload.contains("added port p19\n"), "{reload}");
    assert_eq!(end(&mut switch, Signal::TERM), 0);
}
