//! Kernel interfaces whose queue is shared.

use super::*;
use e2e::cable::two_namespaces;
use e2e::transfer::move_file;
use e2e::wire::Cable;

/// Frames each way.
const FRAMES: u64 = 3000;

#[test]
fn an_af_packet_queue_has_three_workers() -> Result<()> {
    for keys in [static_roles(), parented(0, roles(&[1, 2])), locked()] {
        let (cable, home) = (Cable::new()?, Home::new());
        let wire = cable.wire();
        let millrace = cable.switch(&home, shared(&keys, af_packet("wan", "up0")), (joined(), workers(3)));
        let exchange = Exchange::new(ends(&home, &millrace, &wire)?, [1, 2], SIZES, WINDOW);
        let mut exchange = if is(RxSharing::Locked, &keys) { exchange.in_any_order() } else { exchange };
        exchange.run(FRAMES, e2e::SOON).unwrap();
        let lanes: &[usize] = if keys.parent.is_some() { &[1, 2] } else { &[0, 1, 2] };
        adds_up(&millrace, "wan", [FRAMES; 2], lanes);
        millrace.stop();
    }
    Ok(())
}

/// The kernel's own TCP sends through a tap and an interface that are both shared. Workers come and go meanwhile.
#[test]
fn a_tap_and_an_interface_are_shared() -> Result<()> {
    let (here, there) = two_namespaces()?;
    let home = Home::new();
    let config = |keys: &RawPort| {
        let ports = [shared(keys, tap("tap0", "tap0")), shared(keys, af_packet("up", "up0"))];
        (ports, patch("tap0", "up"), workers(3))
    };
    let millrace = home.start_inside(&here, config(&static_roles()));
    here.run("ip", &["address", "add", "192.0.2.1/24", "dev", "tap0"])?;
    there.run("ip", &["address", "add", "192.0.2.2/24", "dev", "up1"])?;
    for keys in [static_roles(), parented(0, roles(&[1, 2])), RawPort::default(), locked(), roles(&[2, 0])] {
        home.configure(config(&keys));
        let report = millrace.reload();
        assert_eq!(report.failed(), 0, "{keys:?}: {report}");
        move_file(&home, &here, &there, "192.0.2.2")?;
        move_file(&home, &there, &here, "192.0.2.1")?;
        here.run("ping", &["-c", "2", "-i", "0.2", "-W", "2", "-s", "4000", "192.0.2.2"])?;
    }
    let (tap, up) = (millrace.port("tap0"), millrace.port("up"));
    assert_eq!((tap.rx(), up.rx()), (up.tx() + up.dropped(), tap.tx() + tap.dropped()), "{:?} {:?}", tap.0, up.0);
    millrace.stop();
    Ok(())
}
