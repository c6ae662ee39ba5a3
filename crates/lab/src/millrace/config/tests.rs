//! The switch reads back the configuration that was written.

use super::*;
use ::millrace::config::Config;
use std::path::Path;

/// Returns the configuration that the switch reads from a text.
fn read(text: &str) -> Config {
    let read = Config::parse(Path::new("/m.toml"), text);
    read.unwrap_or_else(|report| panic!("{text}\n{report}")).0
}

/// Reads a text into the types that this module writes from, and checks that these give the same switch.
fn assert_same_again(text: &str) {
    let raw: RawFile = settings::read_tagged(text, &tagged()).file.expect("it can be read");
    let again = raw.text();
    assert_eq!(read(text), read(&again), "{text}\n{again}");
}

#[test]
fn acceleration_is_written_before_the_sections() {
    assert_same_again("acceleration = \"off\"\n[[port]]\nname = \"a\"\ndriver = \"sink\"");
}

#[test]
fn the_example_is_written_as_it_was_read() {
    assert_same_again(include_str!("../../../../millrace/src/config/example.toml"));
}

#[test]
fn every_key_of_every_kind_of_port_is_written() {
    assert_same_again(
        r#"
        [[port]]
        name = "vhost"
        driver = "vhost-user"
        socket = "v.sock"
        mode = "server"
        socket-mode = "0660"
        memory = "any"
        queues = 4
        trunk = [1, 2]
        record-to = "v.pcap"
        fault = { drop = 0.5, corrupt = 0.25, delay = "5ms", seed = 7 }
        [[port]]
        name = "asked"
        driver = "vhost-user"
        socket = "w.sock"
        queues = "auto"
        trunk = "all"
        [[port]]
        name = "virtio"
        driver = "virtio-user"
        socket = "u.sock"
        acceleration = "off"
        group = "owner"
        trusted = true
        mode = "server"
        queues = 2
        queue-size = 512
        packed = true
        vlan = 3
        rx-sharing = "static-role"
        workers = [0, 1]
        parent = 0
        order = "none"
        stalled-after = "100ms"
        [[port]]
        name = "tap"
        driver = "tap"
        interface = "t0"
        mtu = 9000
        queues = 2
        vlan = 4
        [port.vxlan]
        vni = 7
        udp-port = 4790
        mtu = 1400
        checksum = "computed"
        local = { mac = "02:00:00:00:00:01", ip = "192.0.2.1" }
        remote = { mac = "02:00:00:00:00:02", ip = "192.0.2.2" }
        [[port]]
        name = "packet"
        driver = "af_packet"
        interface = "p0"
        vlan = 5
        aggregate = true
        [[port]]
        name = "xdp"
        driver = "af_xdp"
        interface = "x0"
        mode = "copy"
        queues = 2
        queue-size = 256
        vlan = 6
        [[port.steer]]
        mac = "02:00:00:00:00:03"
        queue = 1
        [[port]]
        name = "dpdk"
        driver = "dpdk"
        device = "net_tap0"
        queues = 2
        queue-size = 64
        mtu = 1400
        vlan = 10
        [[port.steer]]
        mac = "02:00:00:00:00:13"
        queue = 1
        [[port]]
        name = "pcap"
        driver = "pcap"
        replay = "in.pcap"
        record = "out.pcap"
        loop = true
        rate = 5
        burst = 2
        vlan = 7
        [[port]]
        name = "generator"
        driver = "generator"
        size = 100
        rate = 10
        burst = 3
        frames = 12
        mac = "02:00:00:00:00:04"
        vlan = 8
        [[port]]
        name = "sink"
        driver = "sink"
        [[port]]
        name = "loopback"
        driver = "loopback"
        vlan = 9
        [[bridge]]
        name = "br0"
        ports = ["vhost", "asked", "virtio", "tap", "packet", "xdp", "dpdk", "pcap", "generator", "loopback"]
        ageing = 10
        learned-limit = 11
        openflow = true
        static = [{ mac = "02:00:00:00:00:05", port = "vhost", vlan = 1 }]
        [[mapping]]
        from = "xdp.0"
        to = "asked.0"
        mode = "bridge"
        steering = "given"
        copy-break = 128
        [[mirror]]
        from = ["vhost"]
        to = "sink"
        direction = "in"
        at = "forward"
        [[exchange]]
        ports = ["vhost", "asked"]
        mode = "zcopy"
        device = "/dev/other"
        threshold = 100
        [[worker]]
        idle = "poll"
        patience = "1ms"
        ports = ["vhost.0"]
        [[worker]]
        cpu = 1
        idle = "sleep"
        [aggregation]
        mtu = 1400
        transport = "udp"
        service-chain-id = "vlan"
        udp-port = 50000
        mac = "02:00:00:00:00:06"
        addresses = ["192.0.2.3", "2001:db8::3"]
        checksum = "zero"
        unknown-chains = "drop"
        [[aggregation.next-hop]]
        nfi = 1
        mac = "02:00:00:00:00:07"
        ip = "192.0.2.4"
        port = "packet"
        vlan = 20
        source-port = 50001
        [[aggregation.flow]]
        sc = 100
        nfi = 1
        [control]
        socket = "c.sock"
        [metrics]
        listen = "127.0.0.1:9464"
        [openflow]
        listen = ["unix:of.sock"]
        controllers = ["tcp:192.0.2.1:6653"]
        fail-mode = "secure"
        relay = true
        datapath-id = 5
        [dpdk]
        devices = ["net_tap0,iface=t1"]
        memory = "64M"
        [confinement]
        enabled = false
        directories = ["/tmp"]
        "#,
    );
}

#[test]
fn parts_make_the_file_that_their_text_would() {
    let made = (
        vhost_user("a"),
        RawPort { aggregate: true.into(), ..virtio_user("b", Path::new("/b.sock")) },
        (
            [tap("t", "t0"), af_packet("p", "p0"), af_xdp("x", "x0")],
            dpdk_port("n", "net_null0"),
            dpdk_devices(&["net_null0"]),
        ),
        vec![replay("in", "in.pcap"), record("out", "out.pcap"), generator("g"), sink("s"), loopback("l")],
        (patch("a", "b"), bridge("br0", ["t", "p", "x", "n", "in", "out", "g", "s", "l"]), patched("c", "d")),
        RawAggregation {
            next_hops: vec![next_hop(1, "02:00:00:00:00:02", "192.0.2.2").into()],
            flows: vec![flow(100, 1).into()],
            ..aggregation("02:00:00:00:00:01", "192.0.2.1")
        },
        Some(pinned(0, sleeper())),
        unconfined(),
    );
    let written = r#"
        port = [
            { name = "a", driver = "vhost-user", socket = "a.sock" },
            { name = "b", driver = "virtio-user", socket = "/b.sock", aggregate = true },
            { name = "t", driver = "tap", interface = "t0" },
            { name = "p", driver = "af_packet", interface = "p0" },
            { name = "x", driver = "af_xdp", interface = "x0" },
            { name = "n", driver = "dpdk", device = "net_null0" },
            { name = "in", driver = "pcap", replay = "in.pcap" },
            { name = "out", driver = "pcap", record = "out.pcap" },
            { name = "g", driver = "generator" },
            { name = "s", driver = "sink" },
            { name = "l", driver = "loopback" },
            { name = "c", driver = "vhost-user", socket = "c.sock" },
            { name = "d", driver = "vhost-user", socket = "d.sock" },
        ]
        patch = [{ ports = ["a", "b"] }, { ports = ["c", "d"] }]
        bridge = [{ name = "br0", ports = ["t", "p", "x", "n", "in", "out", "g", "s", "l"] }]
        worker = [{ cpu = 0, idle = "sleep" }]
        confinement.enabled = false
        dpdk = { devices = ["net_null0"], memory = "64M" }
        [aggregation]
        mac = "02:00:00:00:00:01"
        addresses = ["192.0.2.1"]
        next-hop = [{ nfi = 1, mac = "02:00:00:00:00:02", ip = "192.0.2.2" }]
        flow = [{ sc = 100, nfi = 1 }]
        "#;
    assert_eq!(read(&made.text()), read(written));
}
