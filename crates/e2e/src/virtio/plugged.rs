//! A guest whose memory comes and goes while frames keep coming.

use std::collections::HashSet;
use std::path::Path;

use super::{Crafted, Ram, Sink};
use crate::wait_for;
use engine::stats::MappingStats;
use lab::Result;
use virtqueue::NET_HEADER;

/// Length of a buffer, and distance to the next one: neither is a power of two.
const BUFFER: u32 = 2060;
const STEP: u64 = 2148;

/// Number of buffers in the memory that stays, and in the memory that comes and goes.
const STAY: u64 = 48;
const GO: u64 = 32;

/// Message by which memory is added and removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// One that names this region.
    Slot,
    /// One that names all regions.
    Table,
}

/// A guest that receives in place, into memory that stays and memory that comes and goes, and checks each frame.
pub struct Plugged<'s> {
    mapping: Box<dyn Fn() -> MappingStats + 's>,
    guest: Crafted,
    /// Memory that stays, and memory that comes and goes.
    stays: Ram,
    goes: Ram,
    sink: Sink,
}

impl<'s> Plugged<'s> {
    /// Connects it, with the end of a stream of frames, which may be lost. `mapping` returns the state of its mapping.
    pub fn connect(socket: &Path, packed: bool, sink: Sink, mapping: impl Fn() -> MappingStats + 's) -> Self {
        let [stays, goes] = [1 << 30, 3 << 30].map(|start| Ram::new(start, (STAY * STEP).next_multiple_of(4096)));
        let mut guest = Crafted::connect(socket, packed, &[&stays]);
        for buffer in 0..STAY {
            assert!(guest.post(stays.start() + buffer * STEP, BUFFER));
        }
        guest.publish();
        Self { mapping: Box::new(mapping), guest, stays, goes, sink }
    }

    /// Returns the state of its mapping.
    pub fn mapping(&self) -> MappingStats {
        (self.mapping)()
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

    /// Receives a frame into each buffer of the memory that stays: none was lost.
    pub fn fill(&mut self) -> Result<()> {
        self.receive_into(false, STAY as usize)
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
    pub fn in_place(&mut self) {
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
    /// Frames have to keep coming.
    pub fn come_and_go(&mut self, by: By, early: bool) -> Result<()> {
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
