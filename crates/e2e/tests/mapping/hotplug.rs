//! Receive queue mapping while the guest's memory comes and goes under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use e2e::functions::{self, SharedNic};
use e2e::virtio::{By, Exchange, Guest, Options, Plugged, Pump, Sink, Sizes, Source};
use e2e::wire::{KINDS, Scene};
use e2e::{Home, Millrace};
use lab::Result;

/// Every size that fits the usual MTU.
const SIZES: Sizes = 60..=1514;

/// A sender of frames to the guest at full speed, until it is stopped.
struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Load {
    fn start(mut far: Guest) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut source = Source::new(2, 1, SIZES);
            while !stopping.load(Ordering::Relaxed) {
                far.reap()?;
                source.send(&mut far)?;
                far.flush();
                far.receive(64, |_| Ok(()))?;
                e2e::rest();
            }
            Ok(())
        });
        Load { stop, thread: Some(thread) }
    }

    fn stop(mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it runs").join().expect("it does not panic")
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Connects the guest with this mapping.
fn connect<'s>(switch: &'s Millrace, mapping: usize, home: &Home, port: &str, packed: bool) -> Plugged<'s> {
    let sink = Sink::new(2, 1, SIZES);
    Plugged::connect(&home.socket(port), packed, sink, move || switch.stats().mappings.swap_remove(mapping))
}

#[test]
fn memory_comes_and_goes_under_load() -> Result<()> {
    for kind in KINDS {
        for packed in [false, true] {
            let scene = Scene::new(kind)?;
            let mut machine = connect(&scene.millrace, 0, &scene.home, "fw", packed);
            let load = Load::start(scene.wire.guest("far")?);
            machine.in_place();
            for early in [false, true] {
                for by in [By::Slot, By::Table, By::Slot, By::Table] {
                    machine.come_and_go(by, early)?;
                }
            }
            machine.fill()?;
            load.stop()?;
            let mapping = machine.mapping();
            drop(machine);
            assert!(mapping.sent_in_place > 0, "{kind:?}: {mapping:?}");
            scene.millrace.stop();
        }
    }
    Ok(())
}

/// Functions on other queues of the NIC lose nothing meanwhile.
#[test]
fn memory_comes_and_goes_beside_other_functions() -> Result<()> {
    let nic = SharedNic::new()?;
    let config = (functions::nic("up0"), functions::functions("near"), e2e::poller());
    let switches = nic.start(&config);
    let near = &switches[0];
    let mut pumps = Vec::new();
    for queue in 0..2 {
        pumps.push(Pump::start(Exchange::new(nic.connect(&switches, queue)?, [3, 4], SIZES, 32)));
    }
    for packed in [false, true] {
        let mut machine = connect(near, 2, &nic.near, "near2", packed);
        let load = Load::start(Options::new(nic.far.socket("far2")).connect()?);
        machine.in_place();
        for (by, early) in [(By::Slot, false), (By::Table, true), (By::Slot, true), (By::Table, false)] {
            machine.come_and_go(by, early)?;
            for (queue, pump) in pumps.iter().enumerate() {
                // A panic, so that the switches show their counters.
                pump.wait_for(100, e2e::SOON).unwrap_or_else(|error| panic!("function {queue}: {error}"));
            }
            let others = &near.stats().mappings[..2];
            assert!(others.iter().all(|mapping| mapping.zero_copy && mapping.on_loan > 0), "{others:?}");
        }
        load.stop()?;
    }
    for (queue, pump) in pumps.into_iter().enumerate() {
        let tally = pump.stop()?;
        assert!(tally.is_complete(), "function {queue} lost frames: {tally:?}");
    }
    functions::nothing_dropped(near, &["near0", "near1"]);
    switches.into_iter().for_each(Millrace::stop);
    Ok(())
}
