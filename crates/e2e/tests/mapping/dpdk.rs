//! DPDK ports: plain ones, and abilities and refusals that only they have as the physical side of a mapping. [`super::wires`] has what
//! they share with others.

use e2e::cable::quiet_namespace;
use e2e::mapped::one_wire;
use e2e::virtio::{Exchange, Options, Pump};
use e2e::wire::{Cable, DPDK, Wire};
use e2e::{Home, Millrace, wait_for};
use engine::reload::Step;
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;
use lab::process::Daemon;

use super::{look, nothing_dropped};

/// Every size that fits the usual MTU.
const SIZES: std::ops::RangeInclusive<usize> = 60..=1514;

/// Frames each way.
const FRAMES: u64 = 10_000;

/// Returns the port `wan` at a cable.
fn wan() -> RawPort {
    dpdk_port("wan", "net_af_packet0")
}

fn wan_with(keys: Dpdk) -> RawPort {
    port("wan", Dpdk { device: "net_af_packet0".into(), ..keys })
}

/// Starts a switch at a cable, with a guest's port.
fn start(cable: &Cable, home: &Home, wan: RawPort, device: &str, rest: impl Part) -> Millrace {
    let config = (wan, dpdk_devices(&[device]), vhost_user("fw"), rest, e2e::poller());
    let millrace = home.start_inside(&cable.here, config);
    millrace.wait_up(&["wan"]);
    millrace
}

#[test]
fn every_frame_passes_both_ways() -> Result<()> {
    let (cable, home) = (Cable::new()?, Home::new());
    let wire = cable.wire();
    let millrace = start(&cable, &home, wan(), DPDK, (patch("wan", "fw"), Acceleration::Off));
    assert_eq!(millrace.port("wan").0.detail, "device net_af_packet0, driver net_af_packet, MTU 1500");
    let guest = Options::new(home.socket("fw")).connect()?;
    millrace.wait_up(&["fw"]);
    let mut exchange = Exchange::new([guest, wire.guest("far")?], [1, 2], SIZES, 32);
    exchange.run(FRAMES, e2e::SOON)?;
    nothing_dropped(&millrace);
    let shown = millrace.ctl("ports");
    assert!(shown.contains("dpdk") && shown.contains("net_af_packet0"), "{shown}");
    millrace.stop();
    Ok(())
}

#[test]
fn a_worker_that_sleeps_answers() -> Result<()> {
    let (cable, home) = (Cable::new()?, Home::new());
    let ports = (wan(), dpdk_devices(&[DPDK]), tap("tap0", "tap0"), patch("wan", "tap0"), sleeper());
    let millrace = home.start_inside(&cable.here, ports);
    millrace.wait_up(&["wan"]);
    cable.here.run("ip", &["address", "add", "192.0.2.1/24", "dev", "tap0"])?;
    cable.there.run("ip", &["address", "add", "192.0.2.2/24", "dev", "up1"])?;
    for size in ["56", "1000", "1472"] {
        // The kernel leaves checksums to hardware that does not exist.
        cable.here.run("ping", &["-c", "5", "-i", "0.05", "-W", "2", "-M", "do", "-s", size, "192.0.2.2"])?;
    }
    assert!(millrace.stats().workers[0].sleeps > 0);
    millrace.stop();
    Ok(())
}

#[test]
fn the_switch_maps_it_by_itself_and_says_so() -> Result<()> {
    let (cable, home) = (Cable::new()?, Home::new());
    let wire = cable.wire();
    let millrace = start(&cable, &home, wan(), DPDK, patch("wan", "fw"));
    let guest = Options::new(home.socket("fw")).connect()?;
    millrace.wait_mapped();
    Exchange::new([guest, wire.guest("far")?], [1, 2], SIZES, 8).run(500, e2e::SOON)?;
    let shown = millrace.ctl("mappings");
    assert!(shown.contains("wan.0") && shown.contains("pass-through  auto"), "{shown}");
    let shown = millrace.ctl("why wan");
    assert!(shown.contains("wan: driver dpdk, patch fw") && shown.contains("in place"), "{shown}");
    millrace.stop();
    Ok(())
}

/// Mappings come and go by reloads, while frames go both ways: the bystanders, which share the worker, lose none.
#[test]
fn a_mapping_comes_and_goes() -> Result<()> {
    let (cable, home) = (Cable::new()?, Home::new());
    let wire = cable.wire();
    let with = |joint: RawFile| {
        let ports =
            (wan(), dpdk_devices(&[DPDK]), vhost_user("fw"), Acceleration::Off, patched("c", "d"), e2e::poller());
        file((ports, joint))
    };
    let (copied, mapped) = (file(patch("wan", "fw")), file(one_wire()));
    let millrace = home.start_inside(&cable.here, with(copied.clone()));
    millrace.wait_up(&["wan"]);
    let [c, d] = ["c", "d"].map(|port| Options::new(home.socket(port)).connect().unwrap());
    let bystanders = Pump::start(Exchange::new([c, d], [3, 4], SIZES, 32));
    for _ in 0..3 {
        for (joint, is_mapped) in [(&mapped, true), (&copied, false)] {
            home.configure(with(joint.clone()));
            millrace.reload();
            // The port of a guest is opened again if it becomes the end of a mapping, or is none any more.
            let guest = Options::new(home.socket("fw")).connect()?;
            millrace.wait_up(&["fw"]);
            if is_mapped {
                millrace.wait_mapped();
            }
            let mut exchange = Exchange::new([guest, wire.guest("far")?], [1, 2], SIZES, 32);
            exchange.run(FRAMES / 10, e2e::SOON)?;
            assert_eq!(millrace.stats().mappings.len(), usize::from(is_mapped));
        }
    }
    let tally = bystanders.stop()?;
    assert!(tally.is_complete(), "{tally:?}");
    millrace.stop();
    Ok(())
}

/// The driver of taps keeps buffers until its device is closed: when the guest leaves, the device is closed and attached again.
#[test]
fn a_device_that_keeps_buffers_is_attached_again() -> Result<()> {
    let (here, home) = (quiet_namespace()?, Home::new());
    let tap = port("wan", Dpdk { device: "net_tap0".into(), queue_size: 64.into(), ..Dpdk::default() });
    let config = (tap, dpdk_devices(&["net_tap0,iface=up0"]), vhost_user("fw"), one_wire(), e2e::poller());
    let millrace = home.start_inside(&here, config);
    millrace.wait_up(&["wan"]);
    let files = || std::fs::read_dir(format!("/proc/{}/fd", millrace.daemon.pid())).expect("it runs").count();
    let mut most = usize::MAX;
    for round in 0..4 {
        let guest = Options::new(home.socket("fw")).connect()?;
        millrace.wait_mapped();
        // Attached anew, the tap is another one.
        let wire = behind(&here)?;
        let before = millrace.mapping().in_place;
        let mut exchange = Exchange::new([guest, wire.guest("far")?], [1, 2], SIZES, 16);
        exchange.run(FRAMES / 10, e2e::SOON)?;
        assert!(millrace.mapping().in_place > before, "{:?}", millrace.mapping());
        drop(exchange);
        millrace.wait_gone("fw");
        wait_for("all buffers to be back", || (millrace.mapping().on_loan == 0).then_some(()));
        millrace.wait_up(&["wan"]);
        wait_for("files to be closed", || (files() <= most).then_some(()));
        if round == 1 {
            // By now, all that is kept once is there.
            most = files();
        }
    }
    assert!(!millrace.daemon.log().tail(200).contains("ERROR"), "{}", millrace.daemon.log().tail(200));
    millrace.stop();
    Ok(())
}

/// Starts the wire behind a tap in a namespace.
fn behind(here: &Namespace) -> Result<Wire> {
    let home = Home::new();
    let config = (af_packet("cable", "up0"), vhost_user("far"), patch("cable", "far"), sleeper());
    let millrace = home.start_inside(here, config);
    millrace.wait_up(&["cable"]);
    Ok(Wire::of(home, millrace))
}

/// What a device can't do is said where users look, and frames are copied.
#[test]
fn mappings_that_cannot_be_made_copy_and_say_why() -> Result<()> {
    let rule = SteerKeys { mac: "02:00:00:00:00:01".into(), queue: 0.into() };
    let steered = wan_with(Dpdk { steer: vec![rule.into()], ..Dpdk::default() });
    for (wan, buffer, why) in [
        (steered, 2048, "frames to 02:00:00:00:00:01 are not steered to queue 0"),
        (wan(), 1600, "buffers of 1600 bytes"),
    ] {
        let (cable, home) = (Cable::new()?, Home::new());
        let wire = cable.wire();
        let millrace = start(&cable, &home, wan, DPDK, one_wire());
        let guest = Options::new(home.socket("fw")).buffer(buffer).connect()?;
        millrace.wait_up(&["fw"]);
        // Of a guest that has no buffers for a moment, none are too short.
        wait_for(why, || millrace.mapping().reason.filter(|reason| reason.contains(why)));
        let shown = millrace.ctl("mappings");
        assert!(shown.contains("copy") && shown.contains(why), "{shown}");
        Exchange::new([guest, wire.guest("far")?], [1, 2], SIZES, 32).run(FRAMES / 10, e2e::SOON)?;
        // The guest has left, or is about to.
        let mapping = millrace.mapping();
        assert!(!mapping.zero_copy && mapping.in_place == 0, "{mapping:?}");
        millrace.stop();
    }
    Ok(())
}

#[test]
fn devices_that_cannot_be_opened_are_named() -> Result<()> {
    let wan = |device: &str| dpdk_port("wan", device);
    for (config, says) in [
        ((wan("net_nothing0"), dpdk_devices(&["net_nothing0"])), "net_nothing0"),
        (
            (wan_with(Dpdk { queues: 2.into(), ..Dpdk::default() }), dpdk_devices(&["net_af_packet0,iface=lo"])),
            "device net_af_packet0 has 1 queues, not 2; lower `queues`",
        ),
    ] {
        let home = Home::new();
        let file = home.configure(config);
        let mut command = std::process::Command::new(e2e::program());
        command.args(["run", "--strict", "--config"]).arg(file);
        command.env("MILLRACE_DPDK_PLUGIN", e2e::plugin::of_millrace());
        let mut daemon = Daemon::spawn("millrace", command)?;
        assert!(!daemon.wait(e2e::SOON)?.success());
        daemon.wait_for_line(says, e2e::SOON, |line| line.contains("port \"wan\" (dpdk)") && line.contains(says))?;
    }
    Ok(())
}

/// Devices are added while the switch runs, if it was started with DPDK; if not, it says what to do.
#[test]
fn a_reload_adds_and_removes_it() -> Result<()> {
    let (cable, home) = (Cable::new()?, Home::new());
    let rest = (vhost_user("fw"), Acceleration::Off, e2e::poller());
    let config = (wan(), dpdk_devices(&[DPDK]), patch("wan", "fw"), &rest);
    let other = (dpdk_devices(&["net_null0"]), &rest);
    let millrace = home.start_inside(&cable.here, &other);
    for _ in 0..3 {
        home.configure(&config);
        let report = millrace.reload();
        assert_eq!(report.ports(Step::Added), ["wan"]);
        assert!(report.needs_restart.is_empty(), "{report}");
        millrace.wait_up(&["wan"]);
        home.configure(&other);
        assert_eq!(millrace.reload().ports(Step::Removed), ["wan"]);
    }
    millrace.stop();

    let home = Home::new();
    let millrace = home.start_inside(&cable.here, &rest);
    home.configure(&config);
    assert_eq!(millrace.reload().needs_restart, ["dpdk"]);
    let detail =
        wait_for("the reason", || Some(millrace.port("wan").0.detail).filter(|detail| detail.contains("[dpdk]")));
    assert!(detail.contains("start it again"), "{detail}");
    millrace.stop();
    Ok(())
}

/// Frames of several queues go to the guest's queues, each in place.
#[test]
fn a_port_of_two_queues_is_mapped() -> Result<()> {
    let (cable, home) = (Cable::with_queues(2)?, Home::new());
    let wire = cable.wire();
    let two = wan_with(Dpdk { queues: 2.into(), ..Dpdk::default() });
    let millrace = start(&cable, &home, two, "net_af_packet0,iface=up0,qpairs=2", one_wire());
    for _ in 0..3 {
        let guest = Options::new(home.socket("fw")).connect()?;
        millrace.wait_mapped();
        let mut exchange = Exchange::new([guest, wire.guest("far")?], [1, 2], SIZES, 32).in_any_order();
        exchange.run(FRAMES / 10, e2e::SOON)?;
        drop(exchange);
        millrace.wait_gone("fw");
    }
    let all = millrace.stats().mappings;
    assert!(all.len() == 2 && all.iter().map(|mapping| mapping.in_place).sum::<u64>() > 0, "{all:?}");
    millrace.stop();
    Ok(())
}

/// A driver that registers memory gets that of each guest by another start of its device. No NIC of such a driver is here: another one
/// stands for it.
#[test]
fn a_device_that_registers_memory_starts_again_for_each_guest() -> Result<()> {
    let (cable, home) = (Cable::with_queues(2)?, Home::new().with_variable("MILLRACE_DPDK_REGISTERS", "net_af_packet"));
    let wire = cable.wire();
    let two = wan_with(Dpdk { queues: 2.into(), ..Dpdk::default() });
    let millrace = start(&cable, &home, two, "net_af_packet0,iface=up0,qpairs=2", one_wire());
    let in_place = || millrace.stats().mappings.iter().map(|mapping| mapping.in_place).sum::<u64>();
    for round in 0..3 {
        let options = Options::new(home.socket("fw"));
        let guest = if round == 1 { options.packed() } else { options }.connect()?;
        millrace.wait_mapped();
        let before = in_place();
        let mut exchange = Exchange::new([guest, wire.guest("far")?], [1, 2], SIZES, 32).in_any_order();
        exchange.run(FRAMES / 10, e2e::SOON)?;
        assert!(in_place() > before, "{:?}", millrace.stats().mappings);
        drop(exchange);
        millrace.wait_gone("fw");
    }
    millrace.stop();
    Ok(())
}

/// Guests behind a bridge get frames of the port too, copied from the mapped guest's buffers.
#[test]
fn a_bridge_forwards_to_all() -> Result<()> {
    let (cable, home) = (Cable::new()?, Home::new());
    let wire = cable.wire();
    let rest = (e2e::mapped::trusted(), vhost_user("other"), bridge("br0", ["wan", "fw", "other"]));
    let millrace = start(&cable, &home, wan(), DPDK, rest);
    let guest = Options::new(home.socket("fw")).connect()?;
    millrace.wait_mapped();
    let mut exchange = Exchange::new([guest, wire.guest("far")?], [1, 2], SIZES, 32);
    exchange.run(FRAMES / 4, e2e::SOON)?;
    look(&millrace, FRAMES / 4);
    millrace.stop();
    Ok(())
}
