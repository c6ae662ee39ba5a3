//! Several functions on one NIC, each mapped to a queue of its own.

use e2e::functions::{QUEUES, SharedNic, functions, mapping, nothing_dropped, nothing_lost, steered, wait_mapped};
use e2e::virtio::{Exchange, Options, Pump, Sink};
use e2e::wire::Wire;
use e2e::{Home, Millrace, mapped, wait_for};
use engine::reload::Step;
use lab::Result;
use lab::dpdk::{self, Forward, Testpmd};
use lab::millrace::config::*;

/// Frames each way, for each function.
const FRAMES: u64 = 5000;

/// Every size that fits the usual MTU.
const SIZES: std::ops::RangeInclusive<usize> = 60..=1514;

fn config(workers: impl Part) -> RawFile {
    let nic = steered("up0", [SteerKeys { mac: "02:00:00:00:00:01".into(), queue: 1.into() }]);
    file((nic, functions("near"), workers))
}

/// Returns a port to a backend with as many queues as there are functions.
fn virtio_nic(wire: &Wire) -> RawPort {
    let (socket, queues) = (socket(&wire.home.socket("wan")), (QUEUES as i64).into());
    port("wan", VirtioUser { socket, queues, ..VirtioUser::default() })
}

#[test]
fn each_function_gets_the_frames_of_its_queue() -> Result<()> {
    let scene = SharedNic::new()?;
    // A worker for two of the functions, and one for the third, which is also a sender to the NIC.
    let two = ["wan.0", "near0", "wan.1", "near1"].map(str::to_owned).into_iter().collect();
    let workers = vec![RawWorker { ports: two, ..RawWorker::default() }, RawWorker::default()];
    for workers in [vec![e2e::poller()], workers] {
        let switches = scene.start(config(workers));
        let near = &switches[0];
        let detail = near.port("wan").0.detail;
        let refused = "frames to 02:00:00:00:00:01 are not steered to queue 1: driver veth has no rules by MAC address";
        assert!(detail.contains(refused), "{detail}");
        assert_eq!(near.port("wan").0.forwarding, "patch near0, near1, near2");
        assert_eq!(near.port("near1").0.forwarding, "patch wan.1");
        let mut exchanges = Vec::new();
        for queue in 0..QUEUES {
            exchanges.push(Exchange::new(scene.connect(&switches, queue)?, [1, 2], SIZES, 32));
        }
        for exchange in &mut exchanges {
            exchange.run(FRAMES, e2e::SOON)?;
        }
        let mappings = near.stats().mappings;
        for (queue, mapping) in mappings.iter().enumerate() {
            assert_eq!((mapping.from.clone(), mapping.to.clone()), (format!("wan.{queue}"), format!("near{queue}.0")));
            assert!(mapping.in_place > FRAMES / 2 && mapping.elsewhere == 0, "{mapping:?}");
            assert!(mapping.sent_in_place > 0, "{mapping:?}");
            near.counted(&format!("near{queue}"), FRAMES, FRAMES);
        }
        nothing_dropped(near, &["wan", "near0", "near1", "near2"]);
        switches.into_iter().for_each(Millrace::stop);
    }
    Ok(())
}

#[test]
fn a_function_that_dies_disturbs_no_other() -> Result<()> {
    let scene = SharedNic::new()?;
    let switches = scene.start(config(e2e::poller()));
    let near = &switches[0];
    let mut pumps = Vec::new();
    for queue in 0..QUEUES - 1 {
        pumps.push(Pump::start(Exchange::new(scene.connect(&switches, queue)?, [1, 2], SIZES, 32)));
    }
    let _sends = mapped::blaster(scene.far.socket("far2"), false, [2, 1])?;
    for death in 0..30 {
        let mut victim = mapped::blaster(scene.near.socket("near2"), death % 2 == 0, [1, 2])?;
        wait_mapped(near, 2..3);
        let before = near.stats().mappings.swap_remove(2);
        wait_for("frames both ways", || {
            let now = near.stats().mappings.swap_remove(2);
            let sent = |mapping: &engine::stats::MappingStats| mapping.sent_in_place + mapping.sent_copied;
            (now.in_place > before.in_place + 20 && sent(&now) > sent(&before) + 20).then_some(())
        });
        victim.kill()?;
        near.wait_gone("near2");
        let others = &near.stats().mappings[..2];
        assert!(others.iter().all(|mapping| mapping.zero_copy && mapping.on_loan > 0), "death {death}: {others:?}");
    }
    for pump in &pumps {
        pump.wait_for(100, e2e::SOON)?;
    }
    nothing_lost(near, pumps)?;
    switches.into_iter().for_each(Millrace::stop);
    Ok(())
}

/// A virtio NIC, whose backend has one memory table for all queues: it may lose frames of all of them when that changes.
#[test]
fn queues_of_a_virtio_nic() -> Result<()> {
    let (home, wire) = (Home::new(), Wire::start());
    let nic = virtio_nic(&wire);
    let switch = home.start((nic, functions("near"), e2e::poller()));
    switch.wait_up(&["wan"]);
    let far = dpdk::Port::new(wire.home.socket("far"));
    let mut testpmd = Testpmd::builder("far").port(far).queues(QUEUES as u16).forward(Forward::FlowGen).spawn()?;
    testpmd.wait_ready(dpdk::READY)?;
    let echo = |queue: usize| mapped::echo(home.socket(&format!("near{queue}")), queue == 1);
    let mut echoes = (0..QUEUES).map(echo).collect::<Result<Vec<_>>>()?;
    wait_mapped(&switch, 0..QUEUES);
    testpmd.start()?;
    let in_place = || switch.stats().mappings.iter().map(|mapping| mapping.in_place).collect::<Vec<_>>();
    let all_pass = |queues: std::ops::Range<usize>| {
        let before = in_place();
        wait_for("frames to pass", || {
            let now = in_place();
            queues.clone().all(|queue| now[queue] > before[queue] + 1000).then_some(())
        });
    };
    all_pass(0..QUEUES);
    echoes.pop().expect("there are three").kill()?;
    switch.wait_gone("near2");
    all_pass(0..QUEUES - 1);
    let mappings = switch.stats().mappings;
    assert!(mappings[..2].iter().all(|mapping| mapping.zero_copy && mapping.elsewhere == 0), "{mappings:?}");
    testpmd.stop()?;
    testpmd.quit(e2e::SOON)?;
    switch.stop();
    Ok(())
}

/// The NIC and the other functions continue, and the function is mapped again.
#[test]
fn a_function_whose_port_is_reopened_disturbs_no_other() -> Result<()> {
    let scene = SharedNic::new()?;
    let switches = scene.start(config(e2e::poller()));
    let near = &switches[0];
    let pump = Pump::start(Exchange::new(scene.connect(&switches, 0)?, [1, 2], SIZES, 32));
    let mut config = config(e2e::poller());
    let near1 =
        config.ports.iter().position(|port| port.name.iter().any(|name| **name == "near1")).expect("it is there");
    for memory in [MemoryKey::Any.into(), Field::default()] {
        let keys = VhostUser { socket: "near1.sock".into(), memory, ..VhostUser::default() };
        config.ports[near1] = port("near1", keys).into();
        scene.near.configure(&config);
        let report = near.reload();
        assert_eq!(report.ports(Step::Reopened), ["near1"], "{report:?}");
        let mut exchange = Exchange::new(scene.connect(&switches, 1)?, [1, 2], SIZES, 32);
        exchange.run(FRAMES / 5, e2e::SOON)?;
        drop(exchange);
        // The next functions must not take the mappings of these for theirs.
        near.wait_gone("near1");
        switches[1].wait_gone("far1");
    }
    pump.wait_for(100, e2e::SOON)?;
    let tally = pump.stop()?;
    assert!(tally.is_complete(), "the other function lost frames: {tally:?}");
    nothing_dropped(near, &["wan", "near0"]);
    switches.into_iter().for_each(Millrace::stop);
    Ok(())
}

/// Reloads `switch` with queue 2 of the NIC mapped to a function, or to none: in `config` it is mapped to `near2`. The NIC must
/// stay open, and the mappings of the other queues as they are.
fn remap(switch: &Millrace, home: &Home, config: &RawFile, to: Option<&str>, reopened: &[&str]) {
    let mut config = config.clone();
    let third = config.mappings.iter().position(|mapping| mapping.to.iter().any(|to| **to == "near2"));
    config.mappings.remove(third.expect("it is mapped"));
    home.configure((config, to.map(|to| mapping(2, to))));
    let received = switch.port("wan").rx();
    let report = switch.reload();
    assert_eq!((report.failed(), report.ports(Step::Changed)), (0, vec!["wan"]), "{report}");
    assert_eq!(report.ports(Step::Reopened), reopened, "{report}");
    assert!(switch.port("wan").0.up && switch.port("wan").rx() >= received, "it was opened again");
    let mappings = switch.stats().mappings;
    let ends: Vec<_> = mappings.iter().map(|mapping| (&*mapping.from, mapping.to.clone())).collect();
    let third = to.map(|to| ("wan.2", format!("{to}.0")));
    let expected = [("wan.0", "near0.0".to_owned()), ("wan.1", "near1.0".to_owned())].into_iter().chain(third);
    assert_eq!(ends, expected.collect::<Vec<_>>());
    let told = switch.ctl("mappings");
    assert_eq!(told.contains("wan.2"), to.is_some(), "{told}");
    assert!(mappings[2..].iter().all(|mapping| !mapping.zero_copy), "its guest has not come yet: {mappings:?}");
}

/// Frames arrive at all queues all the time, and every payload is checked. Nothing is written to the memory of a guest whose
/// mapping is gone.
#[test]
fn a_mapping_comes_and_goes_beside_other_functions() -> Result<()> {
    let scene = SharedNic::new()?;
    let config = file((config(e2e::poller()), vhost_user("other")));
    let switches = scene.start(&config);
    let near = &switches[0];
    let mut pumps = Vec::new();
    for queue in 0..QUEUES - 1 {
        pumps.push(Pump::start(Exchange::new(scene.connect(&switches, queue)?, [1, 2], SIZES, 32)));
    }
    let _sends = mapped::blaster(scene.far.socket("far2"), false, [2, 1])?;
    let mut to = "near2";
    for round in 0..20 {
        let options = Options::new(scene.near.socket(to));
        let mut guest = if round % 2 == 0 { options } else { options.packed() }.connect()?;
        let mut sink = Sink::new(2, 1, 60..=1500);
        wait_for("frames in place", || {
            guest.receive(64, |frame| sink.take(frame)).unwrap();
            let mapping = near.stats().mappings.swap_remove(2);
            (mapping.in_place > 100 && sink.received() > 100).then_some(())
        });
        let reload = |to, reopened: &[&str]| remap(near, &scene.near, &config, to, reopened);
        let next = if round % 5 < 3 { to } else { ["near2", "other"][usize::from(to == "near2")] };
        if next == to || round % 5 == 4 {
            reload(None, &[to]);
        } else {
            reload(Some(next), &["near2", "other"]);
        }
        let memory = guest.leave();
        let then = memory();
        for pump in &pumps {
            pump.wait_for(20, e2e::SOON)?;
        }
        let others = &near.stats().mappings[..2];
        assert!(others.iter().all(|mapping| mapping.zero_copy && mapping.on_loan > 0), "round {round}: {others:?}");
        if near.stats().mappings.len() == 2 {
            reload(Some(next), &[next]);
        }
        assert!(memory() == then, "round {round}: something was written after the mapping had gone");
        to = next;
    }
    nothing_lost(near, pumps)?;
    switches.into_iter().for_each(Millrace::stop);
    Ok(())
}

/// Its backend keeps its connection, and serves the other queues again after its table of memory has changed.
#[test]
fn a_mapping_of_a_virtio_nic_comes_and_goes() -> Result<()> {
    let (home, wire) = (Home::new(), Wire::start());
    let nic = virtio_nic(&wire);
    let config = file((nic, functions("near"), vhost_user("other"), e2e::poller()));
    let switch = home.start(&config);
    switch.wait_up(&["wan"]);
    let far = dpdk::Port::new(wire.home.socket("far"));
    let mut testpmd = Testpmd::builder("far").port(far).queues(QUEUES as u16).forward(Forward::FlowGen).spawn()?;
    testpmd.wait_ready(dpdk::READY)?;
    let _echoes = [0, 1].map(|queue| mapped::echo(home.socket(&format!("near{queue}")), queue == 1).unwrap());
    wait_mapped(&switch, 0..2);
    testpmd.start()?;
    let all_pass = |queues: usize| {
        let in_place = || switch.stats().mappings.iter().map(|mapping| mapping.in_place).collect::<Vec<_>>();
        let before = in_place();
        wait_for("frames to pass", || {
            in_place().iter().zip(&before).take(queues).all(|(now, before)| *now > before + 500).then_some(())
        });
    };
    let mut to = "near2";
    for round in 0..10 {
        let mut guest = mapped::echo(home.socket(to), round % 2 == 1)?;
        wait_mapped(&switch, 0..QUEUES);
        all_pass(QUEUES);
        remap(&switch, &home, &config, None, &[to]);
        all_pass(2);
        guest.kill()?;
        to = if round % 3 == 2 { "other" } else { "near2" };
        remap(&switch, &home, &config, Some(to), &[to]);
    }
    assert_eq!(wire.sessions(), 1, "the NIC's backend was connected to again");
    testpmd.stop()?;
    testpmd.quit(e2e::SOON)?;
    switch.stop();
    Ok(())
}
