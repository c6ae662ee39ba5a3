//! Tests of the problems reported, and their places.

mod aggregation;
mod exchanges;
mod files;
mod many;
mod mirrors;
mod numbers;
mod openflow;
mod sharing;
mod vxlan;

use super::*;
use engine::port::offloads::OffloadsKey;
use engine::port::steer::Steer;
use engine::port::{af_xdp, dpdk, generator, pcap, tap, vhost_user, virtio_user};
use engine::spec::{
    Access, BridgeSpec, Driver, FailMode, Faults, Idle, Mode, Pace, PortQueues, PortSpec, QueueSizes, WorkerSpec,
    XdpMode,
};
use packet::MacAddr;
use std::time::Duration;

fn parse(text: &str) -> Result<(Config, Report), Report> {
    Config::parse(Path::new("/etc/m.toml"), text)
}

/// Returns all problems, one line each, without the file's name.
fn problems(text: &str) -> Vec<String> {
    let report = match parse(text) {
        Ok((_, warnings)) => warnings,
        Err(report) => report,
    };
    report.lines().map(|line| line.replace("/etc/m.toml:", "")).collect()
}

fn valid(text: &str) -> Config {
    parse(text).unwrap_or_else(|report| panic!("{report}")).0
}

/// Two ports `a` and `b` on one line, for sections that refer to ports.
const TWO: &str = "port = [{name='a', driver='sink'}, {name='b', driver='sink'}]\n";

#[test]
fn a_minimal_file_gets_all_defaults() {
    let config = valid(
        r#"
        [[port]]
        name = "a"
        driver = "vhost-user"
        socket = "a.sock"
        [[port]]
        name = "b"
        driver = "virtio-user"
        socket = "/b.sock"
        [[patch]]
        ports = ["a", "b"]
        [control]
        socket = "c.sock"
        "#,
    );
    let a = Driver::VhostUser(vhost_user::Settings::at("/etc/a.sock"));
    let queue_sizes = QueueSizes::from(256);
    let b = Driver::VirtioUser(virtio_user::Settings {
        socket: "/b.sock".into(),
        mode: Mode::Client,
        queues: 1,
        queue_sizes,
        packed: false,
        offloads: None,
    });
    assert_eq!(config.spec.ports, [PortSpec::new("a", a), PortSpec::new("b", b)]);
    assert_eq!(config.spec.patches, [["a".to_owned(), "b".to_owned()]]);
    let worker = WorkerSpec { cpu: None, idle: Idle::Backoff, patience: None, turn: None, queues: vec![] };
    assert_eq!(config.spec.workers, [worker]);
    assert_eq!(config.control, Path::new("/etc/c.sock"));
    assert_eq!(config.metrics, None);
}

#[test]
fn every_driver_takes_its_options() {
    let config = valid(
        r#"
        dpdk.devices = ["0000:3b:00.0", "net_tap0,iface=t1"]
        port = [
          {name="t", driver="tap", interface="t0", mtu=9000, queues=2},
          {name="p", driver="pcap", replay="in.pcap", record="out.pcap", loop=true, rate=9, burst=8, record-to="all.pcap"},
          {name="g", driver="generator", size=60, rate=1000, frames=5, mac="02:00:00:00:00:01"},
          {name="x", driver="af_xdp", interface="eth2", queues=2, mode="zero-copy", queue-size=512, steer=[{mac="02:00:00:00:00:01", queue=1}]},
          {name="y", driver="af_xdp", interface="eth3"},
          {name="d", driver="dpdk", device="net_tap0", queues=2, queue-size=64, mtu=1400, offloads="checksum", steer=[{mac="02:00:00:00:00:01", queue=1}]},
          {name="i", driver="af_packet", interface="eth1", fault={drop=1, corrupt=0.5, delay="5ms", seed=7}},
        ]
        "#,
    );
    let drivers: Vec<&Driver> = config.spec.ports.iter().map(|port| &port.driver).collect();
    assert_eq!(
        *drivers[0],
        Driver::Tap(tap::Settings { interface: Some("t0".into()), mtu: Some(9000), queues: 2, offloads: None })
    );
    let (replay, record) = (Some("/etc/in.pcap".into()), Some("/etc/out.pcap".into()));
    assert_eq!(
        *drivers[1],
        Driver::Pcap(pcap::Settings { replay, record, repeat: true, pace: Pace { rate: 9, burst: 8 } })
    );
    let mac = Some(MacAddr([2, 0, 0, 0, 0, 1]));
    assert_eq!(
        *drivers[2],
        Driver::Generator(generator::Settings { size: 60, pace: Pace { rate: 1000, burst: 1 }, frames: 5, mac })
    );
    let fault = Faults { drop: 1.0, corrupt: 0.5, delay: Duration::from_millis(5), seed: 7 };
    assert_eq!(config.spec.ports[6].fault, Some(fault));
    let xdp = |interface: &str, queues, mode, queue_size, steer| {
        Driver::AfXdp(af_xdp::Settings { interface: interface.into(), queues, mode, queue_size, steer })
    };
    let steer = Steer { mac: MacAddr([2, 0, 0, 0, 0, 1]), queue: 1 };
    let device = "net_tap0,iface=t1".into();
    let dpdk = dpdk::Settings {
        device,
        queues: 2,
        queue_size: 64,
        mtu: Some(1400),
        offloads: Some(OffloadsKey::Checksum),
        maps_without_iommu: false,
        steer: vec![steer],
    };
    assert_eq!(*drivers[5], Driver::Dpdk(dpdk));
    assert_eq!(*drivers[3], xdp("eth2", 2, XdpMode::ZeroCopy, 512, vec![steer]));
    assert_eq!(*drivers[4], xdp("eth3", 1, XdpMode::Auto, 1024, vec![]));
    assert_eq!(config.spec.ports[1].record, Some("/etc/all.pcap".into()));
}

#[test]
fn errors_are_all_reported_and_shown_with_a_caret() {
    let report = parse(
        r#"[[port]]
name = "a"
driver = "vhost-usr"
queus = 2

[[port]]
name = "b"
driver = "tap"
mtu = "big"
socket = "b.sock"
"#,
    )
    .unwrap_err();
    let expected = r#"error: unknown value `vhost-usr`
 --> /etc/m.toml:3:10
  |
3 | driver = "vhost-usr"
  |          ^^^^^^^^^^^
  |
  = help: did you mean `vhost-user`?

error: unknown key `queus`
 --> /etc/m.toml:4:1
  |
4 | queus = 2
  | ^^^^^
  |
  = help: did you mean `queues`?

error: found string "big", expected an integer
 --> /etc/m.toml:9:7
  |
9 | mtu = "big"
  |       ^^^^^
  |
  = help: give an integer

error: `socket` means nothing to driver tap
  --> /etc/m.toml:10:10
   |
10 | socket = "b.sock"
   |          ^^^^^^^^
   |
   = help: remove it; it is an option of vhost-user, virtio-user"#;
    let shown = report.to_string();
    for block in expected.split("\n\n") {
        assert!(shown.contains(block), "missing:\n{block}\n\nin:\n{shown}");
    }
    assert_eq!(report.count(Severity::Error), 4, "{shown}");
}

#[test]
fn all_syntax_errors_are_reported_and_nothing_else() {
    let found = problems("port = \n[control]\nsocket = 'a' 'b'\nsocket = 'c'\n");
    let places: Vec<&str> = found.iter().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(places, ["1:8", "3:14", "4:1"], "{found:#?}");
    assert!(found.iter().all(|line| line.contains("not TOML: ")), "{found:#?}");
}

#[test]
fn wrong_shapes_are_explained() {
    assert_eq!(
        problems("[port]\nname = 'a'\n"),
        ["1:1: found a table, expected an array; write the header with double brackets, as in [[port]]"]
    );
    let found = problems("[[control]]\nsocket = 1\n");
    assert!(found[0].starts_with("1:1: found an array, expected a table; "), "{found:#?}");
    let found = problems("[[port]]\nname='a'\ndriver='sink'\ntrunk='some'\n");
    assert!(
        found[1].starts_with("4:7: found string \"some\", expected an array of VLAN identifiers or \"all\""),
        "{found:#?}"
    );
}

#[test]
fn an_unreadable_key_is_not_reported_missing_too() {
    let found = problems("[[port]]\nname='a'\ndriver='af_packet'\ninterface=1\n[metrics]\nlisten=1\n");
    assert_eq!(
        found.iter().filter(|line| !line.contains("no patch")).collect::<Vec<_>>(),
        [
            "4:11: found integer `1`, expected a string; give a string",
            "6:8: found integer `1`, expected a string; give a string"
        ]
    );
}

#[test]
fn missing_keys_are_reported_at_their_section() {
    let found =
        problems("[[port]]\nname='a'\n\n[[port]]\nname='b'\ndriver='vhost-user'\n[[port]]\n[[bridge]]\n[[patch]]\n");
    let errors: Vec<&str> = found.iter().map(String::as_str).filter(|line| line.contains("missing")).collect();
    assert_eq!(
        errors,
        [
            "1:1: `driver` is missing; add `driver = \"vhost-user\"`",
            "4:1: `socket` is missing; add `socket = \"a.sock\"`",
            "7:1: `name` is missing; add `name = \"a\"`",
            "7:1: `driver` is missing; add `driver = \"vhost-user\"`",
            "8:1: `name` is missing; add `name = \"a\"`",
            "9:1: `ports` is missing; add `ports = [\"a\", \"b\"]`",
        ]
    );
}

#[test]
fn port_options_are_checked() {
    let long = format!("driver='vhost-user', socket='{}'", "x".repeat(110));
    let cases = [
        ("driver='tap', queues=0", "41: `queues` cannot be 0; give a number from 1 to 128"),
        ("driver='tap', queues='auto'", "41: found string \"auto\", expected an integer; give an integer"),
        (
            "driver='vhost-user', socket='s', queues='all'",
            "60: found string \"all\", expected a number of queue pairs or \"auto\"",
        ),
        ("driver='vhost-user', socket='s', queues=129", "60: `queues` cannot be 129; give a number from 1 to 128"),
        ("driver='tap', mtu=10000", "38: `mtu` cannot be 10000; give a number from 68 to 9000"),
        ("driver='tap', interface='a b'", "44: `a b` cannot name a network interface; "),
        ("driver='generator', size=59", "45: `size` cannot be 59; give a number from 60 to 9000"),
        ("driver='generator', rate=-1", "45: `rate` cannot be -1; give 0 or more"),
        ("driver='generator', mac='x'", "44: `x` is not a MAC address; "),
        (
            "driver='generator', mac='ff:ff:ff:ff:ff:ff'",
            "44: ff:ff:ff:ff:ff:ff is not the address of a single station; ",
        ),
        (
            "driver='virtio-user', socket='s', queue-size=300",
            "65: `queue-size` cannot be 300: it is not a power of two; give 256 or 512",
        ),
        (
            "driver='af_xdp', interface='e', queues=2, steer=[{mac='02:00:00:00:00:01', queue=2}]",
            "101: `queue` cannot be 2; give a number from 0 to 1",
        ),
        ("driver='af_xdp', interface='e', steer=[{mac='02:00:00:00:00:01'}]", "59: `queue` is missing"),
        (
            "driver='virtio-user', socket='s', queue-size=32",
            "65: `queue-size` cannot be 32; give a number from 64 to 1024",
        ),
        (
            "driver='virtio-user', socket='s', mac='02:00:00:00:00:01'",
            "58: `mac` means nothing to driver virtio-user; remove it; it is an option of generator. The switch sends no",
        ),
        ("driver='virtio-user', socket=''", "49: the path is empty; "),
        (&long, "48: the socket path is 115 bytes long, and the kernel takes 107; "),
        (
            "driver='af_xdp', interface='i', mode='client'",
            "57: unknown value `client`; known here: auto, zero-copy, copy",
        ),
        ("driver='vhost-user', socket='s', mode='copy'", "58: unknown value `copy`; known here: server, client"),
        ("driver='af_xdp'", "9: `interface` is missing"),
        ("driver='pcap'", "9: a pcap port without `replay` and `record` does nothing; "),
        ("driver='pcap', record='r', loop=true", "52: there is nothing to `loop` without `replay`; "),
        ("driver='sink', vlan=4095", "40: `vlan` cannot be 4095; give a number from 1 to 4094"),
        ("driver='sink', trunk=[]", "41: the trunk carries no VLAN; "),
        ("driver='sink', trunk=[1, 0]", "45: 0 is not a VLAN; "),
        ("driver='sink', trunk=[1, 2, 1]", "48: VLAN 1 is listed twice; "),
        ("driver='sink', vlan=1, trunk='all'", "49: a port cannot be access port and trunk port at once; "),
        ("driver='sink', fault={drop=1.5}", "47: `drop` cannot be 1.5: it is a probability; "),
        ("driver='sink', fault={corrupt=nan}", "50: `corrupt` cannot be NaN: it is a probability; "),
        ("driver='sink', fault={delay='soon'}", "48: `soon` is not a time; "),
        ("driver='sink', fault={delay='1h'}", "48: `delay` cannot be 1h; give at most \"10s\""),
        ("driver='sink', record-to='a', mode='server'", "55: `mode` means nothing to driver sink; remove it"),
    ];
    for (options, expected) in cases {
        let found = problems(&format!("port = [{{name='a', {options}}}]"));
        let errors: Vec<&String> = found.iter().filter(|line| !line.contains("in no patch")).collect();
        assert_eq!(errors.len(), 1, "{options}: {found:#?}");
        assert!(errors[0].starts_with(&format!("1:{expected}")), "{options}: {found:#?}");
    }
}

#[test]
fn names_sockets_interfaces_and_files_are_unique() {
    let found = problems(
        "port = [
{name='a', driver='vhost-user', socket='s'},
{name='a', driver='virtio-user', socket='s', mode='server'},
{name='b.1', driver='af_packet', interface='i', record-to='f'},
{name='c', driver='tap', interface='i'},
{name='d', driver='pcap', record='f'},
{name='e', driver='virtio-user', socket='s'}]
[control]
socket = 's'
",
    );
    let errors: Vec<&String> = found.iter().filter(|line| !line.contains("in no patch")).collect();
    let starts = [
        "3:7: there are two ports `a`",
        "3:41: two sockets cannot have the same path",
        "4:7: `b.1` cannot name a port",
        "5:36: interface `i` already has a port",
        "6:34: this file is already written by something else",
        "9:10: two sockets cannot have the same path",
    ];
    assert_eq!(errors.len(), starts.len(), "{errors:#?}");
    for (error, start) in errors.iter().zip(starts) {
        assert!(error.starts_with(start), "{error} is not {start}");
    }
}

#[test]
fn access_to_sockets_is_checked() {
    let cases = [
        ("socket-mode='0666'", None),
        ("socket-mode='660', socket-owner='root', socket-group='0', memory='any', queues=64", None),
        ("socket-mode='66'", Some("`66` is not a set of permissions")),
        ("socket-mode='0999'", Some("`0999` is not a set of permissions")),
        ("socket-mode='01777'", Some("`01777` is not a set of permissions")),
        ("socket-mode='0444'", Some("nobody could connect to a socket of mode 0444")),
        ("socket-owner='no-such-user'", Some("there is no user `no-such-user`")),
        ("socket-group='no-such-group'", Some("there is no group `no-such-group`")),
        ("mode='client', socket-mode='0660'", Some("`socket-mode` has no effect in mode \"client\"")),
        ("memory='fuse'", Some("")),
    ];
    for (keys, expected) in cases {
        let text = format!(
            "port = [{{name='a', driver='vhost-user', socket='a', {keys}}}, {{name='b', driver='sink'}}]\n\
             patch = [{{ports=['a', 'b']}}]\n"
        );
        match (Config::parse(Path::new("/etc/m.toml"), &text), expected) {
            (Ok(_), None) => {}
            (Err(report), Some(part)) => assert!(report.to_string().contains(part), "{keys}: {report}"),
            (outcome, _) => panic!("{keys}: {outcome:?}"),
        }
    }
    let text = "port = [{name='a', driver='vhost-user', socket='a', socket-mode='0620', socket-owner='7'}]";
    let driver = Config::parse(Path::new("/etc/m.toml"), text).unwrap().0.spec.ports.remove(0).driver;
    let Driver::VhostUser(vhost_user::Settings { access, .. }) = driver else { panic!("{driver:?}") };
    assert_eq!(access, Access { mode: Some(0o620), owner: Some(7), group: None });
}

#[test]
fn patches_and_bridges_are_checked() {
    let cases = [
        ("patch = [{ports=['a']}]", "2:17: a patch joins two ports, not 1; name two ports"),
        ("patch = [{ports=['a', 'a']}]", "2:23: port `a` is already joined to something; "),
        ("patch = [{ports=['a', 'bb']}]", "2:23: there is no port `bb`; did you mean `b`?"),
        ("patch = [{ports=['a', 'b']}]\nbridge = [{name='x', ports=['b', 'a']}]", "3:29: port `b` is already joined"),
        ("bridge = [{name='x', ports=['a']}]", "2:28: bridge `x` has 1 port(s): no frame can pass it; "),
        ("bridge = [{name='x', ports=[]}, {name='x', ports=['a', 'b']}]", "2:28: bridge `x` has 0 port(s)"),
        ("bridge = [{name='x', ports=['a', 'b'], ageing=0}]", "2:47: `ageing` cannot be 0; "),
        ("bridge = [{name='x', ports=['a', 'b'], learned-limit=65537}]", "2:54: `learned-limit` cannot be 65537; "),
        (
            "bridge = [{name='x', ports=['a', 'b'], static=[{mac='02:00:00:00:00:01', port='c'}]}]",
            "2:79: port `c` is not in bridge `x`; name one of: a, b",
        ),
        ("bridge = [{name='x', ports=['a', 'b'], static=[{port='a'}]}]", "2:48: `mac` is missing; "),
        (
            "bridge = [{name='x', ports=['a', 'b'], static=[{mac='02:00:00:00:00:01', port='a', vlan=1}]}]",
            "2:89: port `a` knows nothing of VLANs; ",
        ),
        (
            "bridge = [{name='x', ports=['a', 'b'], static=[{mac='02:00:00:00:00:01', port='a'}, {mac='02:00:00:00:00:01', port='b'}]}]",
            "2:85: there are two static entries for 02:00:00:00:00:01; ",
        ),
    ];
    for (text, expected) in cases {
        let found = problems(&format!("{TWO}{text}"));
        assert!(found.iter().any(|line| line.starts_with(expected)), "{text}: {found:#?}");
    }
}

#[test]
fn static_entries_are_as_many_as_a_bridge_has_room_for() {
    let entry = |n: usize| format!("{{mac='02:00:00:00:{:02x}:{:02x}', port='a'}}", n >> 8, n & 0xff);
    let with = |count: usize| {
        let entries: Vec<String> = (0..count).map(entry).collect();
        format!("{TWO}bridge = [{{name='x', ports=['a', 'b'], static=[{}]}}]", entries.join(", "))
    };
    let (config, _) = parse(&with(4096)).unwrap();
    assert_eq!((config.spec.bridges[0].statics.len(), config.spec.bridges[0].learned_limit), (4096, 4096));
    let found = problems(&with(4097));
    let expected = "bridge `x` has 4097 static entries; a bridge has room for 4096";
    assert!(found.len() == 1 && found[0].contains(expected), "{found:#?}");
}

#[test]
fn an_unused_port_is_a_warning() {
    let (_, warnings) = parse(TWO).unwrap();
    assert_eq!(warnings.count(Severity::Warning), 2);
    assert!(!warnings.has_errors());
    assert_eq!(
        warnings.lines().next().unwrap(),
        "/etc/m.toml:1:15: port `a` is in no patch and no bridge: all that it receives is dropped; \
         list it in the `ports` of a [[patch]] or [[bridge]]"
    );
}

#[test]
fn vlans_belong_on_bridges_whose_ports_all_have_them() {
    let ports = "port = [{name='a', driver='sink', vlan=10}, {name='b', driver='sink'}, {name='c', driver='sink', trunk=[20, 10]}]\n";
    let found = problems(&format!("{ports}patch = [{{ports=['a', 'b']}}]"));
    assert!(found[0].starts_with("1:40: port `a` is patched, and a patch does not look at VLANs; "), "{found:#?}");
    let found = problems(&format!("{ports}bridge = [{{name='x', ports=['a', 'b', 'c']}}]"));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].starts_with("2:34: port `b` does not say which VLANs it carries"), "{found:#?}");

    let bridge = |entry: &str| {
        format!("{ports}bridge = [{{name='x', ports=['a', 'c'], static=[{{mac='02:00:00:00:00:01', {entry}}}]}}]")
    };
    assert_eq!(valid(&bridge("port='a'")).spec.bridges[0].statics[0].vlan, 10);
    assert_eq!(valid(&bridge("port='c', vlan=20")).spec.bridges[0].statics[0].vlan, 20);
    for (entry, expected) in [
        ("port='c'", "2:48: `vlan` is missing: port `c` is a trunk port; "),
        ("port='c', vlan=30", "2:89: port `c` does not carry VLAN 30; "),
        ("port='a', vlan=0", "2:89: `vlan` cannot be 0; "),
    ] {
        let found = problems(&bridge(entry));
        assert!(found.iter().any(|line| line.starts_with(expected)), "{entry}: {found:#?}");
    }
}

#[test]
fn workers_are_checked() {
    let ports = "port = [{name='a', driver='tap', queues=4}, {name='b', driver='sink'}, {name='c', driver='sink'}]\n";
    let cases = [
        ("worker = [{cpu=1}, {cpu=1}]", "2:25: CPU 1 already has a worker; "),
        ("worker = [{cpu=-1}]", "2:16: `cpu` cannot be -1; "),
        ("worker = [{patience='long'}]", "2:21: `long` is not a time; "),
        ("worker = [{idle='spin'}]", "2:17: unknown value `spin`; known here: poll, backoff, sleep"),
        ("worker = [{ports=['a.4']}]", "2:19: port `a` has no queue `4`; its queues are `a.0` to `a.3`"),
        ("worker = [{ports=['b.x']}]", "2:19: port `b` has no queue `x`; its only queue is `b.0`"),
        ("worker = [{ports=['d']}]", "2:19: there is no port `d`; "),
        ("worker = [{ports=['a.1']}, {ports=['a']}]", "2:36: queue a.1 already has a worker; "),
    ];
    for (text, expected) in cases {
        let found = problems(&format!("{ports}{text}"));
        assert!(found.iter().any(|line| line.starts_with(expected)), "{text}: {found:#?}");
    }

    let config = valid(&format!("{ports}worker = [{{ports=['a.1', 'c']}}, {{idle='sleep', patience='5us'}}]"));
    assert_eq!(config.spec.workers[1].patience, Some(Duration::from_micros(5)));
    assert_eq!(config.spec.workers[0].queues, [PortQueues::one("a", 1), PortQueues::one("c", 0)]);
}

#[test]
fn metrics_listen_on_loopback_only() {
    let metrics = |listen: &str| valid(&format!("[metrics]\nlisten = '{listen}'\n")).metrics;
    assert_eq!(metrics("127.0.0.1:9464"), Some(ListenAddress::Tcp("127.0.0.1:9464".parse().unwrap())));
    assert_eq!(metrics("[::1]:9464"), Some(ListenAddress::Tcp("[::1]:9464".parse().unwrap())));
    assert_eq!(metrics("unix:m.sock"), Some(ListenAddress::Unix("/etc/m.sock".into())));
    for (listen, expected) in [
        (
            "0.0.0.0:9464",
            "2:10: 0.0.0.0 is not a loopback address; the endpoint has no authentication: listen on \"127.0.0.1:9464\"",
        ),
        ("[2001:db8::1]:1", "2:10: 2001:db8::1 is not a loopback address; "),
        ("localhost:9464", "2:10: `localhost:9464` is not an address to listen on; "),
    ] {
        let found = problems(&format!("[metrics]\nlisten = '{listen}'\n"));
        assert!(found.iter().any(|line| line.starts_with(expected)), "{listen}: {found:#?}");
    }
}

/// Two ports, of which `a` aggregates.
const NETWORK: &str = "port = [{name='a', driver='sink', aggregate=true}, {name='b', driver='sink'}]
patch = [{ports=['a', 'b']}]
";

#[test]
fn confinement_is_on_unless_it_is_switched_off() {
    let confinement = |text: &str| valid(text).confinement;
    assert!(confinement("").enabled && !confinement("confinement.enabled = false").enabled);
    let all = confinement("[confinement]\nuser = 'm'\ndirectories = ['a', '/b']");
    assert_eq!((all.user.as_deref(), all.directories), (Some("m"), vec!["/etc/a".into(), "/b".into()]));
    for (text, expected) in [
        ("enabled = false\nuser = 'm'", "3:8: `user` means nothing with `enabled = false`; "),
        ("user = ''", "2:8: this cannot name a user; "),
        ("directories = ['']", "2:16: the path is empty; "),
    ] {
        let found = problems(&format!("[confinement]\n{text}"));
        assert!(found.iter().any(|line| line.starts_with(expected)), "{text}: {found:#?}");
    }
}

#[test]
fn positions_count_characters() {
    let found = problems("port = [{name='ä', driver='sink', vlan=0}]");
    assert!(found[0].starts_with("1:15: `ä` cannot name a port"), "{found:#?}");
    assert!(found[2].starts_with("1:40: `vlan` cannot be 0"), "{found:#?}");
}

#[test]
fn no_damage_to_a_file_makes_the_check_fail() {
    let example = include_str!("../example.toml");
    let damaged = (0..example.len()).filter(|&at| example.is_char_boundary(at)).flat_map(|at| {
        let (before, after) = example.split_at(at);
        let rest: String = after.chars().skip(1).collect();
        [before.to_owned(), format!("{before}{rest}"), format!("{before}]ä\"{rest}"), format!("{before}\n[{after}")]
    });
    for text in damaged {
        // Both checking and rendering must terminate.
        match parse(&text) {
            Ok((_, report)) | Err(report) => assert!(report.is_empty() || !report.render(true).is_empty()),
        }
    }
}

const ENDS: &str = "local={mac='02:00:00:00:01:01', ip='192.0.2.1'}, remote={mac='02:00:00:00:01:02', ip='192.0.2.2'}";
