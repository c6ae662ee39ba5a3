//! Receive queue mapping while the guest's memory comes and goes under load.

mod support;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use e2e::virtio::{Guest, Sink, Sizes, Source};
use lab::{Result, cpu};
use support::crafted::{Crafted, Ram};
use support::wait_for;
use support::wire::{KINDS, Scene};
use virtqueue::NET_HEADER;

/// Every size that fits the usual MTU.
const SIZES: Sizes = 60..=1514;

/// Length of a buffer, and distance to the next one: neither is a power of two.
const BUFFER: u32 = 1600;
const STEP: u64 = 1700;

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
                std::thread::yield_now();
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
struct Machine {
    guest: Crafted,
    /// Memory that stays, and memory that comes and goes.
    stays: Ram,
    goes: Ram,
    sink: Sink,
}

impl Machine {
    fn connect(scene: &Scene, packed: bool) -> Machine {
        let [stays, goes] = [1 << 30, 3 << 30].map(|start| Ram::new(start, (STAY * STEP).next_multiple_of(4096)));
        let mut guest = Crafted::connect(&scene.home.socket("fw"), packed, &[&stays]);
        for buffer in 0..STAY {
            assert!(guest.post(stays.start() + buffer * STEP, BUFFER));
        }
        guest.publish();
        Machine { guest, stays, goes, sink: Sink::new(2, 1, SIZES) }
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
}

/// Waits until frames arrive in place.
fn in_place(scene: &Scene, machine: &mut Machine) {
    let before = scene.millrace.mapping().in_place;
    wait_for("frames in place", || {
        machine.turn(true).unwrap();
        let mapping = scene.millrace.mapping();
        (mapping.zero_copy && mapping.in_place > before + 100).then_some(())
    });
}

/// Adds memory, receives into it, and removes it: after its buffers came back, or before if `early`.
fn come_and_go(scene: &Scene, machine: &mut Machine, by: By, early: bool) -> Result<()> {
    machine.add(by);
    in_place(scene, machine);
    for buffer in 0..GO {
        assert!(machine.guest.post(machine.goes.start() + buffer * STEP, BUFFER));
    }
    machine.guest.publish();
    machine.receive_into(true, GO as usize)?;
    // The guest also sends from there.
    let frame = machine.goes.start() + GO * STEP;
    machine.goes.write(frame, &[0x5a; 1000]);
    machine.guest.send(frame, NET_HEADER + 900);
    if !early {
        wait_for("the buffers to come back", || {
            machine.turn(false).unwrap();
            (machine.there() == 0 && machine.guest.sending() == 0).then_some(())
        });
    }
    machine.remove(by);
    let then = machine.goes.snapshot();
    wait_for("all buffers to come back from memory that is gone", || {
        machine.turn(false).unwrap();
        (machine.there() == 0 && machine.guest.sending() == 0).then_some(())
    });
    in_place(scene, machine);
    assert!(machine.goes.snapshot() == then, "{by:?}, early: {early}: something was written after the memory had gone");
    Ok(())
}

#[test]
fn memory_comes_and_goes_under_load() -> Result<()> {
    let _alone = cpu::alone();
    for kind in KINDS {
        for packed in [false, true] {
            let scene = Scene::new(kind)?;
            let mut machine = Machine::connect(&scene, packed);
            let load = Load::start(scene.wire.far().connect()?);
            in_place(&scene, &mut machine);
            for early in [false, true] {
                for by in [By::Slot, By::Table, By::Slot, By::Table] {
                    come_and_go(&scene, &mut machine, by, early)?;
                }
            }
            // No buffer was lost on the way.
            machine.receive_into(false, STAY as usize)?;
            load.stop()?;
            let mapping = scene.millrace.mapping();
            assert!(mapping.sent_in_place > 0, "{kind:?}: {mapping:?}");
            scene.millrace.stop();
        }
    }
    Ok(())
}
