//! Linux guests in QEMU, connected by a Millrace bridge whose worker sleeps when idle.

use std::time::Instant;

use e2e::guest::{self, Kernel, Nic, Vm};
use e2e::{Home, Millrace, transfer, wait_for};
use engine::port::offloads::OffloadsKey;
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;

/// Size of the files to move.
const FILE: usize = 4 << 20;

/// Returns a bridge that joins two ports.
fn joined(ports: [&str; 2]) -> RawFile {
    file((bridge("br0", ports), sleeper()))
}

/// Boots two guests, pings and moves a file both ways, and checks the addresses that the bridge learned.
fn two_machines(home: &Home, millrace: &Millrace, nics: [Nic; 2]) -> Result<(Vm, Vm)> {
    let kernel = Kernel::prepare()?;
    let began = Instant::now();
    let addresses = nics.each_ref().map(|nic| nic.mac_address().to_owned());
    let [a, b] = nics;
    let (a, b) = (Vm::builder("a").nic(a).spawn(&kernel)?, Vm::builder("b").nic(b).spawn(&kernel)?);
    for (vm, address) in [(&a, "192.0.2.1/24"), (&b, "192.0.2.2/24")] {
        vm.wait_ready(guest::READY)?;
        vm.set_address("eth0", address)?;
    }
    println!("two machines in {}: {:?}", home.path("").display(), began.elapsed());
    let pings = a.ping("192.0.2.2", 5)?;
    assert_eq!(pings.received, 5, "{:?}", millrace.stats().ports);
    let moved = Instant::now();
    guest::move_file(&a, &b, "192.0.2.2", FILE, guest::PATIENCE)?;
    guest::move_file(&b, &a, "192.0.2.1", FILE, guest::PATIENCE)?;
    println!("4 MiB there and back in {:?}", moved.elapsed());
    for port in ["a", "b"] {
        let offloads = millrace.port(port).0.offloads.expect("what the port offers");
        assert!(offloads.received > 0 && offloads.passed_on > 0, "{port}: {offloads:?}");
        assert_eq!(offloads.completed, 0, "no guest needs complete frames");
    }
    let mut learned: Vec<_> = millrace.macs().into_iter().map(|entry| (entry.port, entry.mac)).collect();
    learned.sort();
    let [first, second] = addresses;
    assert_eq!(learned, [("a".to_owned(), first), ("b".to_owned(), second)]);
    Ok((a, b))
}

#[test]
fn a_split_and_a_packed_machine_talk() -> Result<()> {
    let home = Home::new();
    let mtus = [("a", 9000), ("b", 1400)];
    let ports = mtus.map(|(name, mtu)| {
        port(name, VhostUser { socket: format!("{name}.sock").into(), mtu: mtu.into(), ..VhostUser::default() })
    });
    let [first, second] = ports;
    let millrace = home.start((first, second, joined(["a", "b"])));
    let nics = [Nic::new(home.socket("a")).mtu(9000), Nic::new(home.socket("b")).packed().mtu(1400)];
    let (a, b) = two_machines(&home, &millrace, nics)?;
    for (vm, (_, mtu)) in [&a, &b].into_iter().zip(mtus) {
        assert_eq!(vm.check("cat /sys/class/net/eth0/mtu")?.trim(), mtu.to_string());
    }
    let detail = |port| millrace.port(port).0.detail;
    assert!(detail("a").contains("split") && detail("b").contains("packed"), "{} / {}", detail("a"), detail("b"));
    a.power_off(e2e::SOON)?;
    millrace.wait_down("a");
    drop(b);
    millrace.wait_down("b");
    millrace.stop();
    Ok(())
}

/// One of them has its socket itself.
#[test]
fn machines_with_two_queue_pairs_talk() -> Result<()> {
    let home = Home::new();
    let millrace = home.start((vhost_user("a"), vhost_user_by("b", Side::Client), joined(["a", "b"])));
    let [a, b] = ["a", "b"].map(|name| Nic::new(home.socket(name)).queues(2));
    let nics = [a, b.server().packed().queue_size(512)];
    let (a, b) = two_machines(&home, &millrace, nics)?;
    for vm in [&a, &b] {
        assert_eq!(vm.check("ls -d /sys/class/net/eth0/queues/rx-* | wc -l")?, "2");
    }
    // A guest selects its send queue by processor, so using both queues takes a stream from each processor.
    for processor in ["1", "2"] {
        a.check(&format!("taskset {processor} ping -c 3 -i 0.2 192.0.2.2"))?;
    }
    let queues = millrace.port("a").0.queues;
    assert!(queues.len() == 2 && queues.iter().all(|queue| queue.rx_packets > 0), "{queues:?}");
    Ok(())
}

#[test]
fn a_machine_and_its_host_talk_over_a_tap() -> Result<()> {
    let kernel = Kernel::prepare()?;
    let host = Namespace::create()?;
    host.run("sh", &["-c", "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6"])?;
    let home = Home::new();
    let tap = tap("host", "tap0");
    let millrace = home.start_inside(&host, (vhost_user("a"), tap, joined(["a", "host"])));
    host.run("ip", &["address", "add", "192.0.2.1/24", "dev", "tap0"])?;
    let nic = Nic::new(home.socket("a"));
    let mac = nic.mac_address().to_owned();
    let vm = Vm::builder("a").nic(nic).reboots().spawn(&kernel)?;
    vm.wait_ready(guest::READY)?;
    vm.set_address("eth0", "192.0.2.2/24")?;
    assert_eq!(vm.ping("192.0.2.1", 3)?.received, 3);
    // Its port stays, and serves it again.
    let received = millrace.port("a").rx();
    vm.reboot()?;
    vm.wait_ready(guest::READY)?;
    vm.set_address("eth0", "192.0.2.2/24")?;
    assert_eq!(vm.ping("192.0.2.1", 3)?.received, 3);
    assert!(millrace.port("a").rx() > received);
    host.run("ping", &["-c", "3", "-i", "0.2", "-W", "2", "192.0.2.2"])?;

    transfer::move_both_ways(&host, &vm, ["192.0.2.1", "192.0.2.2"], FILE, &home)?;
    let tap_mac = host.run("cat", &["/sys/class/net/tap0/address"])?;
    let mut learned: Vec<_> = millrace.macs().into_iter().map(|entry| (entry.port, entry.mac)).collect();
    learned.sort();
    assert_eq!(learned, [("a".to_owned(), mac), ("host".to_owned(), tap_mac.trim_end().to_owned())]);
    for port in ["a", "host"] {
        let offloads = millrace.port(port).0.offloads.expect("what the port offers");
        assert!(offloads.received > 0 && offloads.passed_on > 0 && offloads.completed == 0, "{port}: {offloads:?}");
    }
    drop(vm);
    millrace.stop();
    Ok(())
}

/// The host's segments come one by one out of a tap without offloads; the machine gets those that come together as messages.
#[test]
fn a_machine_gets_its_hosts_segments_as_messages() -> Result<()> {
    let kernel = Kernel::prepare()?;
    let host = Namespace::create()?;
    host.run("sh", &["-c", "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6"])?;
    let home = Home::new();
    let offloads = OffloadsKey::None.into();
    let tap = port("host", Tap { interface: "tap0".into(), offloads, ..Tap::default() });
    let millrace = home.start_inside(&host, (vhost_user("a"), tap, joined(["a", "host"])));
    host.run("ip", &["address", "add", "192.0.2.1/24", "dev", "tap0"])?;
    let vm = Vm::builder("a").nic(Nic::new(home.socket("a"))).spawn(&kernel)?;
    vm.wait_ready(guest::READY)?;
    vm.set_address("eth0", "192.0.2.2/24")?;
    wait_for("segments that come together", || {
        // Left from the last time.
        vm.check("rm -f /tmp/silence").expect("a shell");
        let _ = std::fs::remove_file(home.path("silence"));
        transfer::move_both_ways(&host, &vm, ["192.0.2.1", "192.0.2.2"], FILE, &home).expect("the same file");
        let offloads = millrace.port("a").0.offloads.expect("what the port offers");
        assert_eq!(offloads.passed_on, 0);
        (offloads.merged > 0).then_some(())
    });
    let counters = vm.check("cat /proc/net/snmp")?;
    let tcp: Vec<_> = counters.lines().filter(|line| line.starts_with("Tcp:")).collect();
    assert!(tcp[0].ends_with("InCsumErrors") && tcp[1].ends_with(" 0"), "{tcp:?}");
    drop(vm);
    millrace.stop();
    Ok(())
}
