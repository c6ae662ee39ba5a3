//! Mappings that the switch chooses by itself, from ports, patches and bridges alone, and their explanation.

use e2e::mapped;
use e2e::virtio::{Exchange, Guest, Options, Pump};
use e2e::wire::{Cable, Kind, Line, Wire, wan};
use e2e::{Home, Millrace, rest, wait_for};
use engine::reload::{ReloadAction, Step, Subject};
use engine::why::{Frames, PeerWhy, PortWhy};
use lab::Result;
use lab::millrace::config::*;

use super::look;

/// Frames each way.
const FRAMES: u64 = 5000;

/// Every size that fits the usual MTU.
const SIZES: std::ops::RangeInclusive<usize> = 60..=1500;

fn of_group(group: &str, port: RawPort) -> RawPort {
    RawPort { group: group.into(), ..port }
}

/// Returns the explanation of a port.
fn why(millrace: &Millrace, port: &str) -> PortWhy {
    serde_json::from_str(&millrace.ctl(&format!("--json why {port}"))).expect("it is JSON")
}

/// Returns the explanation of a peer of a port.
fn why_of(millrace: &Millrace, port: &str, peer: &str) -> PeerWhy {
    let peers = why(millrace, port).peers;
    peers.into_iter().find(|of| of.peer == peer).expect("it is a peer")
}

/// Has a guest and the far end exchange frames, and checks that they are received in place by the switch's own choice.
fn passes_in_place(millrace: &Millrace, home: &Home, wire: &Wire) -> Result<()> {
    let guest = Options::new(home.socket("fw")).connect()?;
    let far = wire.guest("far")?;
    millrace.wait_mapped();
    // Bursts are too short for a trial, after which frames may be copied.
    Exchange::new([guest, far], [1, 2], SIZES, 8).run(FRAMES, e2e::SOON)?;
    look(millrace, FRAMES);
    assert_eq!(millrace.mapping().chosen_by, "auto");
    for (port, peer) in [("wan", "fw"), ("fw", "wan")] {
        let why = why_of(millrace, port, peer);
        assert_eq!(why.chosen_by.as_deref(), Some("auto"));
        let ways: Vec<_> = why.ways.iter().map(|way| (&*way.from, &*way.to, way.frames)).collect();
        assert_eq!(ways, [("wan.0", "fw.0", Frames::ReceivedInPlace), ("fw.0", "wan.0", Frames::SentInPlace)]);
        assert!(why.ways.iter().all(|way| way.in_place > 0), "{why:?}");
    }
    Ok(())
}

#[test]
fn a_patch_is_mapped() -> Result<()> {
    let (home, line) = (Home::new(), Line::new(Kind::AfXdp, false)?);
    let millrace = line.switch(&home, (patch("wan", "fw"), e2e::poller()));
    let log = millrace.daemon.log().tail(20);
    assert!(log.contains("chosen for acceleration: mapping wan -> fw"), "{log}");
    passes_in_place(&millrace, &home, &line.wire)?;
    let shown = millrace.ctl("mappings");
    assert!(shown.contains("CHOSEN BY") && shown.contains("pass-through  auto"), "{shown}");
    millrace.wait_gone("fw");
    wait_for("the mapping to have no guest", || (!millrace.mapping().zero_copy).then_some(()));
    let shown = millrace.ctl("why wan");
    for part in [
        "wan: driver af_xdp, patch fw, acceleration auto.",
        "received in place",
        "copied: no guest has started queue 0 of \"fw\"",
        "fw: chosen by the switch, as all frames of \"wan\" are for \"fw\"",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    millrace.stop();
    Ok(())
}

#[test]
fn a_bridge_with_one_guest_is_mapped() -> Result<()> {
    let (home, line) = (Home::new(), Line::new(Kind::AfXdp, false)?);
    let millrace = line.switch(&home, (bridge("br0", ["wan", "fw"]), e2e::poller()));
    passes_in_place(&millrace, &home, &line.wire)?;
    assert_eq!(millrace.mapping().mode, "bridge");
    millrace.stop();
    Ok(())
}

#[test]
fn a_program_is_given_memory_only_if_it_is_trusted() -> Result<()> {
    let wire = Wire::start();
    let port = || wire.port(false);
    let trusted = RawPort { trusted: true.into(), ..port() };
    for (wan, fw) in [(trusted, vhost_user("fw")), (of_group("own", port()), of_group("own", vhost_user("fw")))] {
        let home = Home::new();
        let millrace = home.start((wan, fw, patch("wan", "fw"), e2e::poller()));
        millrace.wait_up(&["wan"]);
        passes_in_place(&millrace, &home, &wire)?;
        millrace.stop();
    }
    let home = Home::new();
    let millrace = home.start((port(), vhost_user("fw"), patch("wan", "fw"), e2e::poller()));
    millrace.wait_up(&["wan"]);
    copies(&millrace, &home, &wire)?;
    let why = why_of(&millrace, "fw", "wan");
    assert!(why.why.contains("the program behind \"wan\" would get access to the memory of \"fw\""), "{why:?}");
    assert!(why.remedy.is_some_and(|remedy| remedy.contains("`trusted = true` at \"wan\"")));
    millrace.stop();
    Ok(())
}

/// Has a guest and the far end exchange frames, and checks that there is no mapping.
fn copies(millrace: &Millrace, home: &Home, wire: &Wire) -> Result<()> {
    let guest = Options::new(home.socket("fw")).connect()?;
    millrace.wait_up(&["fw"]);
    Exchange::new([guest, wire.guest("far")?], [1, 2], SIZES, 32).run(FRAMES, e2e::SOON)?;
    assert!(millrace.stats().mappings.is_empty());
    Ok(())
}

#[test]
fn several_guests_are_not_mapped() -> Result<()> {
    let (home, line) = (Home::new(), Line::new(Kind::AfXdp, false)?);
    let ports = (vhost_user("dns"), bridge("br0", ["wan", "fw", "dns"]), e2e::poller());
    let millrace = line.switch(&home, ports);
    copies(&millrace, &home, &line.wire)?;
    let shown = millrace.ctl("why wan");
    for part in ["fw, dns: copied, as bridge \"br0\" has other ports", "to change it: pin a [[mapping]]"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let why = why_of(&millrace, "fw", "dns");
    assert_eq!((why.chosen_by, why.ways[0].frames), (None, Frames::Copied));
    assert!(why.why.contains("may not access each other's memory"), "{}", why.why);
    millrace.stop();
    Ok(())
}

#[test]
fn an_unknown_port_is_named() -> Result<()> {
    let home = Home::new();
    let millrace = home.start(patched("a", "b"));
    let output = millrace.control(&["why", "c"]).output().map_err(lab::Error::io("asking"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("there is no port `c`; known are a, b"), "{said}");
    millrace.stop();
    Ok(())
}

fn steps(report: &[ReloadAction], step: Step, subject: Subject) -> Vec<&str> {
    report
        .iter()
        .filter(|action| (action.step, action.subject) == (step, subject))
        .map(|action| &*action.name)
        .collect()
}

/// Waits for many frames that the far end sends without an end, in place or not.
fn wait_for_frames(millrace: &Millrace, guest: &mut Guest, in_place: bool) {
    let sent = || match in_place {
        true => millrace.stats().mappings.iter().map(|of| of.in_place).sum(),
        false => millrace.port("fw").tx(),
    };
    let before: u64 = sent();
    wait_for("frames", || {
        guest.receive(64, |_| Ok(())).unwrap();
        (sent() > before + 500).then_some(())
    });
    assert!(guest.is_connected());
}

#[test]
fn acceleration_changes_while_frames_flow() -> Result<()> {
    let (cable, home) = (Cable::new()?, Home::new());
    let wire = cable.wire();
    let base = || file((wan(), vhost_user("fw"), e2e::poller()));
    let [auto, off] = [Acceleration::Auto, Acceleration::Off].map(|how| file((base(), patch("wan", "fw"), how)));
    let at_port = file((wan(), RawPort { acceleration: Acceleration::Off.into(), ..vhost_user("fw") }));
    let at_port = file((at_port, patch("wan", "fw"), e2e::poller()));
    let pinned = file((base(), pass_through("wan", "fw")));
    let millrace = home.start_inside(&cable.here, &auto);
    millrace.wait_up(&["wan"]);
    let mut far = mapped::blaster(wire.home.socket("far"), false, [2, 1])?;
    for (round, config) in [&off, &auto, &at_port, &pinned, &auto, &off].into_iter().cycle().take(12).enumerate() {
        home.configure(config);
        let report = millrace.reload();
        assert_eq!(report.failed(), 0, "{report}");
        let mut guest = Options::new(home.socket("fw")).connect()?;
        let mappings = millrace.stats().mappings;
        let chosen: Vec<_> = mappings.iter().map(|mapping| &*mapping.chosen_by).collect();
        let expected: &[&str] = match round % 6 {
            1 | 4 => &["auto"],
            3 => &["file"],
            _ => &[],
        };
        assert_eq!(chosen, expected, "round {round}");
        wait_for_frames(&millrace, &mut guest, !expected.is_empty());
    }
    far.kill()?;
    home.configure(&auto);
    millrace.reload();
    millrace.wait_up(&["wan"]);
    // From the file to the switch's choice, and back: the mapping stays, and no frame is lost.
    let mut guest = Options::new(home.socket("fw")).connect()?;
    millrace.wait_mapped();
    let far = wire.guest("far")?;
    rest();
    guest.receive(usize::MAX, |_| Ok(()))?;
    let pump = Pump::start(Exchange::new([guest, far], [3, 4], SIZES, 32));
    for config in [&pinned, &auto, &pinned, &auto] {
        pump.wait_for(200, e2e::SOON)?;
        home.configure(config);
        let report = millrace.reload();
        assert_eq!(steps(&report.actions, Step::Kept, Subject::Mapping), ["wan -> fw"], "{report}");
        assert!(report.ports(Step::Reopened).is_empty(), "{report}");
    }
    pump.wait_for(200, e2e::SOON)?;
    let tally = pump.stop()?;
    assert!(tally.is_complete(), "{tally:?}");
    millrace.stop();
    Ok(())
}

/// A guest that the switch has mapped by itself stays connected when ports are joined otherwise: until it connects again, its frames
/// are copied.
#[test]
fn a_bridge_that_grows_disturbs_no_guest() -> Result<()> {
    let (cable, home) = (Cable::new()?, Home::new());
    let wire = cable.wire();
    let ports = |names: &[&str]| {
        let guests: Vec<_> = names.iter().map(|name| vhost_user(name)).collect();
        let all = ["wan"].iter().chain(names).copied();
        file((wan(), guests, bridge("br0", all), e2e::poller()))
    };
    let [one, two] = [ports(&["fw"]), ports(&["fw", "dns"])];
    let millrace = home.start_inside(&cable.here, &one);
    millrace.wait_up(&["wan"]);
    let mut guest = Options::new(home.socket("fw")).connect()?;
    let mut far = mapped::blaster(wire.home.socket("far"), false, [2, 1])?;
    wait_for_frames(&millrace, &mut guest, true);
    for round in 0..4 {
        let grows = round % 2 == 0;
        home.configure(if grows { &two } else { &one });
        let report = millrace.reload();
        assert!(report.failed() == 0 && report.ports(Step::Reopened).is_empty(), "{report}");
        wait_for_frames(&millrace, &mut guest, !grows);
        let mapping = millrace.mapping();
        // A trial may have found that copies are faster.
        let may_lend = mapping.reason.as_ref().is_none_or(|reason| reason.contains("a copy is faster"));
        assert_eq!((may_lend, &*mapping.chosen_by), (!grows, "auto"), "{mapping:?}");
        if grows {
            let why = why_of(&millrace, "wan", "fw");
            assert!(why.why.contains("\"br0\" has other ports"), "{why:?}");
            assert!(why.remedy.is_some_and(|remedy| remedy.contains("pin a [[mapping]]")));
        }
    }
    far.kill()?;
    millrace.stop();
    Ok(())
}
