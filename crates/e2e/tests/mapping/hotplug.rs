//! Receive queue mapping while the guest's memory comes and goes under load.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use e2e::functions::{self, SharedNic};
use e2e::virtio::{Crafted, Ram};
use e2e::virtio::{Exchange, Guest, Options, Pump, Sink, Sizes, Source};
use e2e::wire::{KINDS, Scene};
use e2e::{Millrace, wait_for};
use engine::stats::MappingStats;
use lab::Result;
use virtqueue::NET_HEADER;

/// Every size that fits the usual MTU.
const SIZES: Sizes = 60..=1514;

/// Length of a buffer, and distance to the next one: neither is a power of two.
const BUFFER: u32 = 2060;
const STEP: u64 = 2148;

/// Number of buffers in the memory that stays, and in the memory that comes and goes.
const STAY: u64 = 48;
const GO: u64 = 32;

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

/// Message by which memory is added and removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Slot,
    Table,
}

/// The guest with its memory, and the checker of its frames.
struct Machine<'s> {
    switch: &'s Millrace,
    /// Index of its mapping.
    mapping: usize,
    guest: Crafted,
    /// Memory that stays, and memory that comes and goes.
    stays: Ram,
    goes: Ram,
    sink: Sink,
}

impl Machine<'_> {
    fn connect<'s>(switch: &'s Millrace, mapping: usize, socket: &Path, packed: bool) -> Machine<'s> {
        let [stays, goes] = [1 << 30, 3 << 30].map(|start| Ram::new(start, (STAY * STEP).next_multiple_of(4096)));
        let mut guest = Crafted::connect(socket, packed, &[&stays]);
        for buffer in 0..STAY {
            assert!(guest.post(stays.start() + buffer * STEP, BUFFER));
        }
        guest.publish();
        Machine { switch, mapping, guest, stays, goes, sink: Sink::new(2, 1, SIZES) }
    }

    fn mapping(&self) -> MappingStats {
        self.switch.stats().mappings.swap_remove(self.mapping)
    }

    /// Takes received frames and posts their buffers again, those in the memory that goes only if it `keeps`. Returns the
    /// addresses of the buffers with frames.
    fn turn(&mut self, keeps: bool) -> Result<Vec<u64>> {
        let mut filled = Vec::new();
        while let Some((bytes, buffers)) = self.guest.receive(&[&self.stays, &self.goes]) {
            let [back] = buffers[..] else { panic!("every frame fits into one buffer: {buffers:?}") };
            if back.len > 0 {
                self.sink.take(&bytes)?;
                filled.push(back.addr);
            }
            if keeps || self.stays.has(back.addr) {
                assert!(self.guest.post(back.addr, BUFFER));
            }
        }
        self.guest.publish();
        Ok(filled)
    }

    /// Takes frames until `buffers` different buffers in one of the memories have had one.
    fn receive_into(&mut self, goes: bool, buffers: usize) -> Result<()> {
        let mut seen = HashSet::new();
        wait_for("frames in all buffers", || {
            let filled = self.turn(true).unwrap();
            seen.extend(filled.into_iter().filter(|&addr| self.goes.has(addr) == goes));
            (seen.len() >= buffers).then_some(())
        });
        Ok(())
    }

    fn add(&mut self, by: By) {
        match by {
            By::Slot => self.guest.plug(&self.goes),
            By::Table => self.guest.share(&[&self.stays, &self.goes]),
        }
    }

    fn remove(&mut self, by: By) {
        match by {
            By::Slot => self.guest.unplug(&self.goes),
            By::Table => self.guest.share(&[&self.stays]),
        }
    }

    /// Returns the number of buffers that the switch has in the memory that goes.
    fn there(&self) -> usize {
        self.guest.posted().filter(|&(addr, _)| self.goes.has(addr)).count()
    }

    /// Waits until frames arrive in place.
    fn in_place(&mut self) {
        let before = self.mapping().in_place;
        wait_for("frames in place", || {
            self.turn(true).unwrap();
            let mapping = self.mapping();
            (mapping.zero_copy && mapping.in_place > before + 100).then_some(())
        });
    }

    /// Waits until all buffers in the memory that goes came back.
    fn back(&mut self) {
        wait_for("the buffers to come back", || {
            self.turn(false).unwrap();
            (self.there() == 0 && self.guest.sending() == 0).then_some(())
        });
    }

    /// Adds memory, receives into it, and removes it: after its buffers came back, or before if `early`.
    fn come_and_go(&mut self, by: By, early: bool) -> Result<()> {
        self.add(by);
        self.in_place();
        for buffer in 0..GO {
            assert!(self.guest.post(self.goes.start() + buffer * STEP, BUFFER));
        }
        self.guest.publish();
        self.receive_into(true, GO as usize)?;
        // The guest also sends from there.
        let frame = self.goes.start() + GO * STEP;
        self.goes.write(frame, &[0x5a; 1000]);
        self.guest.send(frame, NET_HEADER + 900);
        if !early {
            self.back();
        }
        self.remove(by);
        let then = self.goes.snapshot();
        self.back();
        self.in_place();
        assert!(
            self.goes.snapshot() == then,
            "{by:?}, early: {early}: something was written after the memory had gone"
        );
        Ok(())
    }
}

#[test]
fn memory_comes_and_goes_under_load() -> Result<()> {
    for kind in KINDS {
        for packed in [false, true] {
            let scene = Scene::new(kind)?;
            let mut machine = Machine::connect(&scene.millrace, 0, &scene.home.socket("fw"), packed);
            let load = Load::start(scene.wire.guest("far")?);
            machine.in_place();
            for early in [false, true] {
                for by in [By::Slot, By::Table, By::Slot, By::Table] {
                    machine.come_and_go(by, early)?;
                }
            }
            // No buffer was lost on the way.
            machine.receive_into(false, STAY as usize)?;
            load.stop()?;
            let mapping = machine.mapping();
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
        let mut machine = Machine::connect(near, 2, &nic.near.socket("near2"), packed);
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
