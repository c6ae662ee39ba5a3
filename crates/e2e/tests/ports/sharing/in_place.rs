//! Shared queues that receive into a guest's buffers.

use super::*;
use e2e::mapped::{self, one_wire};
use e2e::virtio::Pump;
use e2e::wire::{KINDS, Kind, Line};
use engine::reload::Step;

/// Frames each way.
const FRAMES: u64 = 4000;

/// Returns workers that poll at first: one that sleeps is not told when a guest's first buffers can be lent.
fn pollers() -> Vec<RawWorker> {
    vec![RawWorker::default(); 3]
}

/// A switch whose port `wan`, of one of the kinds, is mapped to `fw` and has these keys.
struct Scene {
    millrace: Millrace,
    home: Home,
    line: Line,
}

impl Scene {
    fn new(keys: &RawPort, kind: Kind) -> Result<Scene> {
        let (home, mut line) = (Home::new(), Line::new(kind, false)?);
        line.wan = shared(keys, line.wan);
        let millrace = line.switch(&home, (one_wire(), pollers()));
        Ok(Scene { millrace, home, line })
    }
}

#[test]
fn a_mapped_guest_gets_shared_frames_in_place() -> Result<()> {
    for kind in KINDS {
        for keys in [static_roles(), parented(0, roles(&[1, 2]))] {
            let Scene { millrace, home, line } = Scene::new(&keys, kind)?;
            for packed in [false, true] {
                let options = Options::new(home.socket("fw"));
                let near = if packed { options.packed() } else { options }.connect()?;
                millrace.wait_up(&["fw"]);
                let far = line.wire.guest("far")?;
                millrace.wait_mapped();
                let before = millrace.mapping().in_place;
                let mut exchange = Exchange::new([near, far], [1, 2], SIZES, 32);
                exchange.run(FRAMES, e2e::SOON).unwrap();
                let mapping = millrace.mapping();
                assert!(mapping.zero_copy && mapping.in_place > before + FRAMES / 2, "{mapping:?}");
                drop(exchange);
                millrace.wait_gone("fw");
            }
            let lost = |port: &str| millrace.port(port).dropped();
            assert_eq!((lost("wan"), lost("fw")), (0, 0), "{:?}", millrace.stats().ports);
            millrace.stop();
        }
    }
    Ok(())
}

#[test]
fn mapped_guests_behind_a_shared_queue_are_killed() -> Result<()> {
    for kind in KINDS {
        let Scene { millrace, home, line } = Scene::new(&static_roles(), kind)?;
        let _far = mapped::blaster(line.wire.home.socket("far"), false, [2, 1])?;
        mapped::kill_guests(&millrace, &home, 14)?;
        millrace.stop();
    }
    Ok(())
}

#[test]
fn nothing_is_written_late_by_a_shared_queue() -> Result<()> {
    for kind in KINDS {
        let Scene { millrace, home, line } = Scene::new(&static_roles(), kind)?;
        mapped::leave_again_and_again(&millrace, &home, line.wire.guest("far")?)?;
        millrace.stop();
    }
    Ok(())
}

#[test]
fn workers_of_a_mapped_queue_come_and_go() -> Result<()> {
    let (wire, home) = (Wire::start(), Home::new());
    let config = |keys: &RawPort| (shared(keys, wire.port(false)), vhost_user("fw"), one_wire(), pollers());
    let millrace = home.start(config(&static_roles()));
    millrace.wait_up(&["wan"]);
    let ends = ends(&home, &millrace, &wire)?;
    millrace.wait_mapped();
    let pump = Pump::start(Exchange::new(ends, [1, 2], SIZES, 32));
    let ways = [parented(0, roles(&[1, 2])), RawPort::default(), roles(&[2]), static_roles()];
    for keys in ways.iter().cycle().take(20) {
        pump.wait_for(100, e2e::SOON).unwrap();
        home.configure(config(keys));
        let report = millrace.reload();
        assert_eq!(report.failed(), 0, "{report}");
        assert!(report.ports(Step::Reopened).is_empty(), "{report}");
        let before = millrace.mapping().in_place;
        wait_for("frames in place", || (millrace.mapping().in_place > before + 50).then_some(()));
    }
    let tally = pump.stop()?;
    assert!(tally.is_complete(), "{tally:?}");
    millrace.stop();
    Ok(())
}
