//! DPDK ports at devices in software that are no interfaces of the kernel: shared memory of another process, and capture files.

use std::fs::File;
use std::time::Duration;

use capture::Writer;
use e2e::mapped::one_wire;
use e2e::virtio::{Exchange, Options, Sink, Sizes, Source};
use e2e::wire::Wire;
use e2e::{Home, Millrace, rest, wait_for};
use lab::Result;
use lab::millrace::config::*;

use super::{look, nothing_dropped};

/// Every size that fits the usual MTU.
const SIZES: Sizes = 60..=1514;

/// Lets a switch reach files that only arguments of devices name.
fn reaching(home: &Home) -> RawConfinement {
    let directory = home.path("").to_str().expect("its name is text").trim_end_matches('/').to_owned();
    RawConfinement { directories: vec![directory.into()].into(), ..RawConfinement::default() }
}

/// Returns the port `wan`, or another one, of a device that is named with its arguments.
fn device(name: &str, device: &str) -> (RawPort, RawDpdk) {
    let short = device.split(',').next().expect("it has a name");
    (dpdk_port(name, short), dpdk_devices(&[device]))
}

/// The wire is another process that has the other side of the memory, and gives out the socket.
#[test]
fn frames_pass_a_memif_in_place() -> Result<()> {
    const FRAMES: u64 = 5_000;
    let (there, home) = (Home::new(), Home::new());
    let memif =
        |role: &str| format!("net_memif0,role={role},socket-abstract=no,socket={}", there.path("memif").display());
    let cable = (device("cable", &memif("server")), vhost_user("far"), patch("cable", "far"), Acceleration::Off);
    let far = there.start((cable, reaching(&there), sleeper()));
    let config = (device("wan", &memif("client")), vhost_user("fw"), one_wire(), reaching(&there), e2e::poller());
    let millrace = home.start(config);
    millrace.wait_up(&["wan"]);
    far.wait_up(&["cable"]);
    let wire = Wire::of(there, far);
    for packed in [false, true] {
        let options = Options::new(home.socket("fw"));
        let guest = if packed { options.packed() } else { options }.connect()?;
        millrace.wait_mapped();
        let before = millrace.mapping().sent_in_place;
        let mut exchange = Exchange::new([guest, wire.guest("far")?], [1, 2], SIZES, 32);
        exchange.run(FRAMES, e2e::SOON)?;
        look(&millrace, FRAMES);
        assert!(millrace.mapping().sent_in_place > before, "{:?}", millrace.mapping());
        drop(exchange);
        millrace.wait_gone("fw");
    }
    millrace.stop();
    Ok(())
}

/// Frames of a file are copied to the guest, as the driver writes before them, and the guest's go to another file.
#[test]
fn frames_pass_from_a_capture_file_and_to_one() -> Result<()> {
    const FRAMES: usize = 200;
    let home = Home::new();
    let [from, to] = ["from.pcap", "to.pcap"].map(|name| home.path(name).display().to_string());
    let (wan, devices) = device("wan", &format!("net_pcap0,rx_pcap={from},tx_pcap={to}"));
    let millrace = home.start((wan, devices, vhost_user("fw"), one_wire(), reaching(&home), e2e::poller()));
    let mut guest = Options::new(home.socket("fw")).connect()?;
    // The device opens once the file is there, which is complete at once.
    let mut file = Writer::new(File::create(home.path("new")).unwrap(), 65535).unwrap();
    let mut source = Source::new(2, 1, SIZES);
    (0..FRAMES).try_for_each(|_| file.write(Duration::ZERO, &source.make())).unwrap();
    drop(file);
    std::fs::rename(home.path("new"), &from).unwrap();
    let mut sink = Sink::new(2, 1, SIZES);
    wait_for("all frames of the file", || {
        guest.receive(usize::MAX, |frame| sink.take(frame)).expect("they are right");
        (sink.received() == FRAMES as u64).then_some(())
    });
    let is_reason = |reason: &String| reason.contains("net_pcap0") && reason.contains("writes before frames");
    let mapping = wait_for("the reason", || {
        Some(millrace.mapping()).filter(|mapping| mapping.reason.as_ref().is_some_and(is_reason))
    });
    assert_eq!(mapping.in_place, 0, "{mapping:?}");

    let mut source = Source::new(1, 2, SIZES);
    while source.sent() < FRAMES as u64 {
        if !source.send(&mut guest)? {
            guest.flush();
            rest();
            guest.reap()?;
        }
    }
    guest.flush();
    millrace.counted("wan", FRAMES as u64, FRAMES as u64);
    assert_eq!(millrace.mapping().sent_in_place, 0, "{:?}", millrace.mapping());
    millrace.stop();
    let mut sink = Sink::new(1, 2, SIZES);
    for frame in capture::Reader::open(to.as_ref()).unwrap() {
        sink.take(&frame.unwrap().bytes)?;
    }
    assert_eq!(sink.received(), FRAMES as u64);
    Ok(())
}

/// Frames longer than a buffer are sent from several ones, and received into several ones. The device is a ring, from which each frame
/// comes that was sent: DPDK gives interfaces of the kernel no such MTU. A ring is not mapped, at any MTU.
#[test]
fn frames_of_several_buffers_pass() -> Result<()> {
    let home = Home::new();
    let with = |mtu: i64| {
        let wan = port("wan", Dpdk { device: "net_ring0".into(), mtu: mtu.into(), ..Dpdk::default() });
        (wan, dpdk_devices(&["net_ring0"]), vhost_user("fw"), one_wire(), e2e::poller())
    };
    let millrace = home.start(with(9000));
    come_back(&home, &millrace, 60..=9014, "lower it to 1500")?;
    home.configure(with(1500));
    millrace.reload();
    come_back(&home, &millrace, SIZES, "stay in the memory of their sender")?;
    millrace.stop();
    Ok(())
}

/// Sends frames, which come back to the guest, and checks why they are copied.
fn come_back(home: &Home, millrace: &Millrace, sizes: Sizes, why: &str) -> Result<()> {
    const FRAMES: u64 = 3_000;
    millrace.wait_up(&["wan"]);
    let mut guest = Options::new(home.socket("fw")).connect()?;
    let (mut source, mut sink) = (Source::new(1, 2, sizes.clone()), Sink::new(1, 2, sizes));
    wait_for("all frames", || {
        // Those on their way fit the buffers of the guest.
        while source.sent() < FRAMES && source.sent() - sink.received() < 16 {
            if !source.send(&mut guest).unwrap() {
                break;
            }
        }
        guest.flush();
        guest.receive(usize::MAX, |frame| sink.take(frame)).expect("they are right");
        guest.reap().unwrap();
        (sink.received() == FRAMES).then_some(())
    });
    let mapping = millrace.mapping();
    assert!(mapping.reason.as_ref().is_some_and(|reason| reason.contains(why)), "{mapping:?}");
    assert_eq!((mapping.in_place, mapping.sent_in_place), (0, 0), "{mapping:?}");
    nothing_dropped(millrace);
    drop(guest);
    millrace.wait_gone("fw");
    Ok(())
}
