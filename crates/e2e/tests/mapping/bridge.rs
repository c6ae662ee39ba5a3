//! Several guests in one bridge, each mapped to a queue of its own of one NIC.
//!
//! A cable carries each frame to the queue with the number of the one that it was sent by: the far end of a queue is
//! the station whose frames the NIC steers there.

use e2e::functions::{QUEUES, SharedNic, nothing_dropped, nothing_lost, steered};
use e2e::virtio::{Exchange, Guest, Pump};
use e2e::{Millrace, wait_for};
use engine::stats::MappingStats;
use lab::Result;
use lab::millrace::config::*;

/// Frames each way, for each pair.
const FRAMES: u64 = 5000;

/// Every size that fits the usual MTU.
const SIZES: std::ops::RangeInclusive<usize> = 60..=1514;

/// Rounds of broadcast frames: more than buffers of the switch, which a queue offers first.
const GREETINGS: u8 = 70;

const EVERYBODY: [u8; 6] = [0xff; 6];

/// Number of the guest, or far station, of a queue; [`Exchange`] makes addresses of these.
const NEAR: [u8; QUEUES] = [1, 2, 3];
const FAR: [u8; QUEUES] = [11, 12, 13];

fn mac(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0x0e, number]
}

fn config(worker: RawWorker) -> RawFile {
    let steer = NEAR.map(|number| (format!("02:00:00:00:0e:0{number}"), i64::from(number) - 1));
    let nic = steered("up0", steer.map(|(mac, queue)| SteerKeys { mac: mac.into(), queue: queue.into() }));
    let names: Vec<_> = (0..QUEUES).map(|queue| format!("near{queue}")).collect();
    let given = |(queue, name): (usize, &String)| RawMapping {
        steering: MappingSteering::Given.into(),
        copy_break: 0.into(),
        ..mapping(&format!("wan.{queue}"), name)
    };
    let mappings: Vec<_> = names.iter().enumerate().map(given).collect();
    let ports: Vec<_> = names.iter().map(|name| vhost_user(name)).collect();
    file((nic, ports, mappings, bridge("br0", ["wan", "near0", "near1", "near2"]), worker))
}

/// A frame whose payload repeats one byte, long enough to be sent in place.
fn frame(to: [u8; 6], from: u8, mark: u8) -> Vec<u8> {
    [&to[..], &mac(from), &[0x88, 0xb5], &[mark; 1000]].concat()
}

/// Sends a frame, and waits until it has arrived at `receivers` as the only one.
fn deliver(sender: &mut Guest, receivers: &mut [&mut Guest], frame: &[u8]) -> Result<()> {
    sender.reap()?;
    assert!(sender.send(&[frame], 1)?);
    sender.flush();
    for guest in receivers {
        let mut got = Vec::new();
        wait_for("a frame to arrive", || {
            let take = |bytes: &[u8]| {
                got.push(bytes.to_vec());
                Ok(())
            };
            (guest.receive(2, take).unwrap() > 0).then_some(())
        });
        assert!(got == [frame], "{} frames, or another one", got.len());
    }
    Ok(())
}

/// The guests and far stations, by queue.
struct Stations {
    near: [Guest; QUEUES],
    far: [Guest; QUEUES],
}

impl Stations {
    fn connect(nic: &SharedNic, switches: &[Millrace; 2]) -> Result<Stations> {
        let [[a, x], [b, y], [c, z]] =
            [nic.connect(switches, 0)?, nic.connect(switches, 1)?, nic.connect(switches, 2)?];
        Ok(Stations { near: [a, b, c], far: [x, y, z] })
    }

    /// Has each of them send a broadcast frame. It reaches all guests but its sender, and, if it is from a guest, the far
    /// station of the guest's queue.
    fn greet(&mut self, mark: u8) -> Result<()> {
        let Stations { near, far } = self;
        for queue in 0..QUEUES {
            let (before, rest) = near.split_at_mut(queue);
            let (own, after) = rest.split_first_mut().expect("it is one of them");
            let others = before.iter_mut().chain(after).chain([&mut far[queue]]);
            deliver(own, &mut others.collect::<Vec<_>>(), &frame(EVERYBODY, NEAR[queue], mark))?;
        }
        for (station, number) in far.iter_mut().zip(FAR) {
            deliver(station, &mut near.iter_mut().collect::<Vec<_>>(), &frame(EVERYBODY, number, mark))?;
        }
        Ok(())
    }

    /// Checks that no frame is left.
    fn silent(&mut self) -> Result<()> {
        for guest in self.near.iter_mut().chain(&mut self.far) {
            assert_eq!(guest.receive(usize::MAX, |_| Ok(()))?, 0, "more than was sent, or not for this guest");
        }
        Ok(())
    }
}

fn mappings(switch: &Millrace) -> [MappingStats; QUEUES] {
    switch.stats().mappings.try_into().expect("one for each queue")
}

/// Checks that each address is known where it is.
fn learned(switch: &Millrace) {
    let mut known: Vec<_> = switch.macs().into_iter().map(|entry| (entry.port, entry.mac)).collect();
    known.sort();
    let address = |number: u8| format!("02:00:00:00:0e:{number:02x}");
    let near = (0..QUEUES).map(|queue| (format!("near{queue}"), address(NEAR[queue])));
    let far = FAR.iter().map(|&number| ("wan".to_owned(), address(number)));
    assert_eq!(known, near.chain(far).collect::<Vec<_>>());
}

/// Has the guest and the far station of a queue exchange frames.
fn exchange(pair: [Guest; 2], queue: usize) -> Exchange {
    Exchange::new(pair, [NEAR[queue], FAR[queue]], SIZES, 32)
}

fn pump(pair: [Guest; 2], queue: usize) -> Pump {
    Pump::start(exchange(pair, queue))
}

#[test]
fn guests_of_a_bridge_each_have_a_queue() -> Result<()> {
    let scene = SharedNic::new()?;
    let switches = scene.start(config(e2e::poller()));
    let near = &switches[0];
    let detail = near.port("wan").0.detail;
    assert!(detail.contains("driver veth has no rules by MAC address"), "{detail}");
    let mut stations = Stations::connect(&scene, &switches)?;

    // Flooded frames reach each member once.
    for mark in 0..GREETINGS {
        stations.greet(mark)?;
        learned(near);
    }
    let flooded = mappings(near);
    for (queue, mapping) in flooded.iter().enumerate() {
        let greetings = u64::from(GREETINGS);
        assert_eq!(mapping.in_place + mapping.copied, greetings, "{mapping:?}");
        // Its own frames were for others, too.
        assert_eq!((mapping.sent_in_place, mapping.sent_copied), (0, greetings), "{mapping:?}");
        // Each guest had the frames of two guests and three stations.
        near.counted(&format!("near{queue}"), greetings, 5 * greetings);
    }
    near.counted("wan", 3 * u64::from(GREETINGS), 3 * u64::from(GREETINGS));

    // A frame that arrives in the queue of another guest is copied out of that guest's buffer.
    for mark in 0..100 {
        let Stations { near, far } = &mut stations;
        deliver(&mut far[0], &mut [&mut near[1]], &frame(mac(NEAR[1]), FAR[0], mark))?;
    }
    stations.silent()?;
    let stray = mappings(near);
    assert!(stray[0].elsewhere > flooded[0].elsewhere, "{stray:?}");
    assert_eq!(stray[1].in_place, flooded[1].in_place, "{stray:?}");

    // Frames between guests are copied from buffer to buffer.
    let Stations { near: [a, b, c], far: [x, y, z] } = stations;
    let mut between = Exchange::new([a, b], [NEAR[0], NEAR[1]], SIZES, 32);
    between.run(FRAMES, e2e::SOON)?;
    let [a, b] = between.into_guests();
    let after = mappings(near);
    let lent = |of: &[MappingStats]| of.iter().map(|m| (m.in_place, m.sent_in_place)).collect::<Vec<_>>();
    assert_eq!(lent(&after), lent(&stray));

    // All guests at once with the stations of their queues: in place.
    let pumps = [pump([a, x], 0), pump([b, y], 1), pump([c, z], 2)];
    pumps.iter().try_for_each(|pump| pump.wait_for(FRAMES, e2e::SOON))?;
    learned(near);
    for (queue, pump) in pumps.into_iter().enumerate() {
        let tally = pump.stop()?;
        assert!(tally.is_complete(), "guest {queue} lost frames: {tally:?}");
    }
    for (now, before) in mappings(near).iter().zip(&after) {
        assert!(now.in_place > before.in_place + FRAMES / 2 && now.elsewhere == before.elsewhere, "{now:?}");
        assert!(now.sent_in_place > before.sent_in_place, "{now:?}");
    }
    nothing_dropped(near, &["wan", "near0", "near1", "near2"]);
    switches.into_iter().for_each(Millrace::stop);
    Ok(())
}

#[test]
fn a_guest_that_comes_and_goes_disturbs_no_other_in_the_bridge() -> Result<()> {
    let scene = SharedNic::new()?;
    let switches = scene.start(config(e2e::poller()));
    let near = &switches[0];
    let mut stations = Stations::connect(&scene, &switches)?;
    stations.greet(0)?;
    let Stations { near: [a, b, mut guest], far: [x, y, mut station] } = stations;
    let pumps = [pump([a, x], 0), pump([b, y], 1)];
    for _ in 0..10 {
        let mut exchange = exchange([guest, station], 2);
        exchange.run(FRAMES / 10, e2e::SOON)?;
        assert!(mappings(near)[2].zero_copy);
        drop(exchange);
        // The next ones must not take the mappings of these for theirs.
        near.wait_gone("near2");
        switches[1].wait_gone("far2");
        wait_for("its address to be forgotten", || near.macs().iter().all(|entry| entry.port != "near2").then_some(()));
        let others = &mappings(near)[..2];
        assert!(others.iter().all(|mapping| mapping.zero_copy && mapping.on_loan > 0), "{others:?}");
        pumps.iter().try_for_each(|pump| pump.wait_for(100, e2e::SOON))?;
        [guest, station] = scene.connect(&switches, 2)?;
        // Otherwise the first frames to it would go to the others, too.
        deliver(&mut guest, &mut [&mut station], &frame(mac(FAR[2]), NEAR[2], 0))?;
    }
    learned(near);
    nothing_lost(near, pumps)?;
    switches.into_iter().for_each(Millrace::stop);
    Ok(())
}
