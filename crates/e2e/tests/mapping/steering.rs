//! Steering: which of the frames for other guests are received into a mapped guest's memory.
//!
//! The other end of the cable is a second Millrace, which patches it to the port `far`. The guests are `fw`, whose port is
//! mapped, and `other`.

use e2e::virtio::{Exchange, Guest, Options};
use e2e::{Home, Millrace, wait_for};
use engine::reload::Step;
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;

/// Addresses of the guests.
const FW: [u8; 6] = [2, 0, 0, 0, 0x0e, 1];
const FAR: [u8; 6] = [2, 0, 0, 0, 0x0e, 2];
const OTHER: [u8; 6] = [2, 0, 0, 0, 0x0e, 3];
const EVERYBODY: [u8; 6] = [0xff; 6];
const GROUP: [u8; 6] = [0x01, 0, 0x5e, 0, 0, 9];

/// Returns static addresses, so that nothing is flooded to other guests.
fn addresses() -> Vec<Section<RawStatic>> {
    let behind = [("02:00:00:00:0e:01", "fw"), ("02:00:00:00:0e:02", "wan"), ("02:00:00:00:0e:03", "other")];
    behind.map(|(mac, port)| stationed(mac, port).into()).into()
}

/// A cable and its far end.
struct Cable {
    here: Namespace,
    _there: Namespace,
    // Dropped before its directory, in which its control socket lies.
    _wire: Millrace,
    home: Home,
}

impl Cable {
    fn new() -> Result<Cable> {
        Cable::with_queues(1)
    }

    fn with_queues(queues: u32) -> Result<Cable> {
        let (here, there) = e2e::cable::two_namespaces_with(queues)?;
        let home = Home::new();
        let cable = af_packet("cable", "up1");
        let patch = patch("cable", "far");
        let wire = home.start_inside(&there, (cable, vhost_user("far"), patch, sleeper()));
        Ok(Cable { here, _there: there, home, _wire: wire })
    }

    fn far(&self) -> Result<Guest> {
        Options::new(self.home.socket("far")).connect()
    }
}

/// Returns a switch whose port `wan` is this one and mapped to `fw` as `how` says, in a bridge with `others`.
fn config(wan: RawPort, others: &[&str], how: RawMapping, worker: RawWorker) -> RawFile {
    let ports: Vec<_> = others.iter().map(|name| vhost_user(name)).collect();
    let statics = if others.is_empty() { Vec::new() } else { addresses() };
    let bridge = RawBridge { statics, ..bridge("br0", ["wan", "fw"].iter().chain(others).copied()) };
    file((wan, vhost_user("fw"), ports, how, bridge, worker))
}

/// Returns a mapping that says nothing of frames for others.
fn plain() -> RawMapping {
    RawMapping { copy_break: 0.into(), ..mapping("wan", "fw") }
}

/// Returns a mapping that lets in the frames of these ports.
fn trusting(ports: &[&str]) -> RawMapping {
    let ports = ports.iter().map(|&port| port.to_owned().into()).collect();
    RawMapping { trust: Several::List(ports).into(), ..plain() }
}

/// Returns a mapping whose frames are steered outside the switch.
fn steered(steering: MappingSteering) -> RawMapping {
    RawMapping { steering: steering.into(), ..plain() }
}

/// Returns a frame whose payload repeats one byte, different for each frame.
fn frame(to: [u8; 6], mark: u8) -> Vec<u8> {
    [&to[..], &FAR, &[0x88, 0xb5], &[mark; 600]].concat()
}

/// Reports whether `memory` holds a part of a frame with this mark.
fn holds(memory: &[u8], mark: u8) -> bool {
    memory.windows(64).any(|window| window.iter().all(|&byte| byte == mark))
}

/// Sends one frame after the other until the guests marked true have received it, and checks that no others have.
fn deliver(far: &mut Guest, guests: &mut [(&mut Guest, bool)], frame: &[u8], times: usize) -> Result<()> {
    for _ in 0..times {
        far.reap()?;
        assert!(far.send(&[frame], 1)?);
        far.flush();
        for (guest, _) in guests.iter_mut().filter(|(_, wanted)| *wanted) {
            wait_for("a frame to arrive", || (guest.receive(1, |got| is(got, frame)).unwrap() > 0).then_some(()));
        }
    }
    for (guest, _) in guests {
        assert_eq!(guest.receive(usize::MAX, |_| Ok(()))?, 0, "more than was sent, or not for this guest");
    }
    Ok(())
}

fn is(got: &[u8], expected: &[u8]) -> Result<()> {
    assert_eq!(got, expected);
    Ok(())
}

const MARKS: [u8; 5] = [0xa1, 0xb2, 0xc3, 0xd4, 0xe5];

/// More than the switch's own buffers, which it offers first; and four times as many are fewer than the guest posts, so that
/// nothing is overwritten.
const TIMES: usize = 70;

/// In the driver and in the kernel, with a polling and a sleeping worker.
#[test]
fn frames_of_others_stay_out_of_the_guests_memory() -> Result<()> {
    let [own, secret, public, group, unused] = MARKS;
    for (interface, worker) in [("up0", e2e::poller()), ("up0", sleeper()), ("mv0", e2e::poller())] {
        let (cable, home) = (Cable::new()?, Home::new());
        let virtual_one = ["link", "add", "link", "up0", "name", "mv0", "type", "macvlan", "mode", "passthru"];
        if interface == "mv0" {
            cable.here.run("ip", &virtual_one)?;
        }
        let config = config(af_xdp("wan", interface), &["other"], steered(MappingSteering::Mac), worker);
        let millrace = home.start_inside(&cable.here, &config);
        millrace.wait_up(&["wan"]);
        let mut far = cable.far()?;
        let mut other = Options::new(home.socket("other")).connect()?;
        for packed in [false, true] {
            let options = Options::new(home.socket("fw"));
            let mut fw = if packed { options.packed() } else { options }.connect()?;
            wait_for("the mapping", || millrace.mapping().zero_copy.then_some(()));
            let before = millrace.mapping();
            deliver(&mut far, &mut [(&mut fw, false), (&mut other, true)], &frame(OTHER, secret), TIMES)?;
            let between = millrace.mapping();
            assert_eq!((between.in_place, between.elsewhere), (before.in_place, before.elsewhere), "{between:?}");
            assert!(between.copied >= before.copied + TIMES as u64, "{between:?}");
            deliver(&mut far, &mut [(&mut fw, true), (&mut other, false)], &frame(FW, own), TIMES)?;
            for (to, mark) in [(EVERYBODY, public), (GROUP, group)] {
                deliver(&mut far, &mut [(&mut fw, true), (&mut other, true)], &frame(to, mark), TIMES)?;
            }
            let after = millrace.mapping();
            assert!(after.zero_copy && after.in_place > between.in_place + TIMES as u64, "{after:?}");
            let memory = fw.leave()();
            let found = [own, secret, public, group, unused].map(|mark| holds(&memory, mark));
            assert_eq!(found, [true, false, true, true, false], "{interface}, packed: {packed}");
            millrace.wait_down("fw");
        }
        assert_eq!(millrace.port("wan").dropped(), 0, "{:?}", millrace.port("wan").0);
        millrace.stop();
    }
    Ok(())
}

/// Frames of all guests pass both ways, whole and in order, whichever guest has them in place.
#[test]
fn steered_frames_pass_whole_and_in_order() -> Result<()> {
    let (cable, home) = (Cable::new()?, Home::new());
    let millrace = home.start_inside(
        &cable.here,
        config(af_xdp("wan", "up0"), &["other"], steered(MappingSteering::Mac), e2e::poller()),
    );
    millrace.wait_up(&["wan"]);
    let mut guest = Options::new(home.socket("fw")).connect()?;
    let other = Options::new(home.socket("other")).connect()?;
    let mut far = cable.far()?;
    millrace.wait_mapped();
    deliver(&mut far, &mut [(&mut guest, true)], &frame(FW, MARKS[0]), TIMES)?;
    let mut exchange = Exchange::new([guest, far], [1, 2], 60..=1514, 32);
    exchange.run(5000, e2e::SOON)?;
    let in_place = millrace.mapping().in_place;
    assert!(in_place > 2500, "{:?}", millrace.mapping());
    let [guest, far] = exchange.into_guests();
    Exchange::new([other, far], [3, 2], 60..=1514, 32).run(2000, e2e::SOON)?;
    assert_eq!(millrace.mapping().in_place, in_place);
    drop(guest);
    millrace.stop();
    Ok(())
}

/// While guests come and go, frames for another guest never land in their memory.
#[test]
fn frames_of_others_stay_out_while_guests_come_and_go() -> Result<()> {
    (1..=2).try_for_each(stay_out)
}

/// Does so with a NIC of this many queues; the first one receives into the guest's memory.
fn stay_out(queues: u32) -> Result<()> {
    let (cable, home) = (Cable::with_queues(queues)?, Home::new());
    let wan = port("wan", AfXdp { interface: "up0".into(), queues: i64::from(queues).into(), ..AfXdp::default() });
    let config = config(wan, &["other"], steered(MappingSteering::Mac), e2e::poller());
    let millrace = home.start_inside(&cable.here, &config);
    millrace.wait_up(&["wan"]);
    let mut far = cable.far()?;
    let mut other = Options::new(home.socket("other")).connect()?;
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = stop.clone();
    let sender = std::thread::spawn(move || {
        let secret = frame(OTHER, MARKS[1]);
        let mut received = 0;
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) && far.is_connected() {
            far.reap().and_then(|_| far.send(&[&secret], 1)).unwrap();
            far.flush();
            received += other.receive(64, |got| is(got, &secret)).unwrap();
            e2e::rest();
        }
        received
    });
    let mut clean = 0;
    for _ in 0..20 {
        let guest = Options::new(home.socket("fw")).connect();
        let guest = guest.unwrap_or_else(|e| panic!("{e}; Millrace said:\n{}", millrace.daemon.log().tail(40)));
        millrace.wait_mapped();
        let before = millrace.port("other").tx();
        wait_for("frames for the other guest", || (millrace.port("other").tx() > before + 50).then_some(()));
        let memory = guest.leave();
        millrace.wait_down("fw");
        clean += u32::from(!holds(&memory(), MARKS[1]));
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(sender.join().expect("it sent") > 1000);
    assert_eq!(clean, 20, "guests that saw nothing");
    millrace.stop();
    Ok(())
}

/// Trust changes while the guest runs, without disturbing it.
#[test]
fn trust_is_given_and_taken() -> Result<()> {
    let (cable, home) = (Cable::new()?, Home::new());
    let wan = || af_xdp("wan", "up0");
    let millrace = home.start_inside(&cable.here, config(wan(), &[], plain(), e2e::poller()));
    millrace.wait_up(&["wan"]);
    let mut far = cable.far()?;
    let mut fw = Options::new(home.socket("fw")).connect()?;
    millrace.wait_mapped();
    let mut other = None;
    for (mark, how, in_place, lets_in) in [
        (MARKS[0], plain(), false, false),
        (MARKS[1], trusting(&["other"]), true, true),
        (MARKS[2], steered(MappingSteering::Mac), true, false),
        (MARKS[3], trusting(&[]), false, false),
        (MARKS[4], steered(MappingSteering::Given), true, true),
    ] {
        home.configure(config(wan(), &["other"], how, e2e::poller()));
        let report = millrace.reload();
        assert!(report.ports(Step::Reopened).is_empty() && report.warnings.is_empty(), "{report:?}");
        let mapping = millrace.mapping();
        let other = match &mut other {
            Some(other) => other,
            none => none.insert(Options::new(home.socket("other")).connect()?),
        };
        assert_eq!(mapping.zero_copy, in_place, "{mapping:?}");
        if !in_place {
            let why = mapping.reason.unwrap_or_default();
            assert!(why.contains("frames for \"other\" would be received into memory of \"fw\""), "{why}");
            assert!(why.contains("`trust = [\"other\"]`"), "{why}");
        }
        deliver(&mut far, &mut [(&mut fw, false), (other, true)], &frame(OTHER, mark), TIMES)?;
        let before = millrace.mapping().in_place;
        assert_eq!(millrace.mapping().elsewhere > mapping.elsewhere, lets_in, "{:?}", millrace.mapping());
        deliver(&mut far, &mut [(&mut fw, true), (other, false)], &frame(FW, 0x11), TIMES)?;
        assert_eq!(millrace.mapping().in_place > before, in_place, "{:?}", millrace.mapping());
        // The guest's own frames are sent in place all the same.
        let sent = millrace.mapping().sent_in_place;
        let answer = [&FAR[..], &FW, &[0x88, 0xb5], &[7; 600]].concat();
        assert!(fw.send(&[&answer], 1)?);
        fw.flush();
        wait_for("the answer", || (far.receive(1, |got| is(got, &answer)).unwrap() > 0).then_some(()));
        assert_eq!(millrace.mapping().sent_in_place, sent + 1);
    }
    assert!(fw.is_connected());
    let memory = fw.leave()();
    assert_eq!([0, 2, 3].map(|kept_out: usize| holds(&memory, MARKS[kept_out])), [false; 3]);
    millrace.stop();
    Ok(())
}
