//! Functions that take their buffers from one memory.

use crate::stats::GroupBuffers;
use std::sync::{Arc, OnceLock};
use virtqueue::exchange::{Counts, Geometry, Grant, Group, GroupOptions, Seat};

/// A group of functions.
pub(super) struct GroupExchange {
    ports: u16,
    buffers: u16,
    buffer_size: u32,
    /// As configured.
    threshold: Option<u32>,
    /// The group, or the reason why it could not be made. It takes no memory before a function joins.
    group: OnceLock<Result<Arc<Group>, String>>,
}

impl GroupExchange {
    pub(super) fn new(ports: u16, buffers: u16, buffer_size: u32, threshold: Option<u32>) -> GroupExchange {
        GroupExchange { ports, buffers, buffer_size, threshold, group: OnceLock::new() }
    }

    fn group(&self) -> Result<&Arc<Group>, String> {
        let make = || {
            let geometry = Geometry::new(self.buffers, self.buffer_size).ok_or("there can't be such buffers")?;
            let options = GroupOptions { ports: self.ports, geometry, threshold: self.threshold, huge: true };
            Group::new(options).map_err(|error| format!("there is no memory for the group's buffers: {error}"))
        };
        self.group.get_or_init(make).as_ref().map_err(Clone::clone)
    }

    fn made(&self) -> Option<&Arc<Group>> {
        self.group.get()?.as_ref().ok()
    }

    pub(super) fn join(&self, token: u64, wanted: u16) -> Result<(Arc<Seat>, Grant), String> {
        let seat = self.group()?.join(token, wanted).map_err(|error| error.to_string())?;
        let grant = Grant::of(&seat);
        Ok((seat, grant))
    }

    /// Returns the length in bytes from which frames are exchanged: the configured one, or else the measured one once a function has
    /// joined.
    pub(super) fn threshold(&self) -> Option<u32> {
        self.threshold.or_else(|| self.made().map(|group| group.threshold()))
    }

    pub(super) fn buffers(&self) -> GroupBuffers {
        let free = self.made().map_or(usize::from(self.buffers), |group| group.free());
        GroupBuffers { buffer_size: self.buffer_size, buffers: self.buffers, free }
    }

    pub(super) fn functions(&self) -> usize {
        self.made().map_or(0, |group| group.functions())
    }

    pub(super) fn reason(&self) -> Option<String> {
        self.group.get()?.as_ref().err().map(|why| format!("no function can join: {why}"))
    }

    pub(super) fn counts(&self, from: u16, to: u16) -> Counts {
        self.made().map_or_else(Counts::default, |group| group.counts(from, to))
    }
}
