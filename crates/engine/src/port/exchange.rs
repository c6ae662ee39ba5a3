//! Groups of ports whose functions exchange buffers instead of having frames copied.

use crate::stats::{ExchangePair, ExchangeStats};
use std::sync::{Arc, OnceLock};
pub use virtqueue::exchange::MAX_BUFFERS as MOST_BUFFERS;
use virtqueue::exchange::{Copied, Geometry, Grant, Group, GroupOptions, Joined, Seat};
use virtqueue::memory::Memory;
use virtqueue::trial;

/// A group of vhost-user ports whose functions take their buffers from one memory, and get each other's instead of copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeSpec {
    /// Names of the ports.
    pub ports: Vec<String>,
    /// Number of buffers: 1 to [`MOST_BUFFERS`].
    pub buffers: u16,
    /// Length in bytes of the longest frame that fits into one: at most 65,535.
    pub buffer_size: u32,
    /// Length in bytes from which frames are exchanged; measured if `None`.
    pub threshold: Option<u32>,
}

/// A group of ports.
pub(crate) struct Exchange {
    spec: ExchangeSpec,
    /// The group, or the reason why it could not be made. It takes no memory before a function joins.
    group: OnceLock<Result<Arc<Group>, String>>,
}

impl Exchange {
    pub(crate) fn new(spec: ExchangeSpec) -> Exchange {
        Exchange { spec, group: OnceLock::new() }
    }

    pub(crate) fn spec(&self) -> &ExchangeSpec {
        &self.spec
    }

    /// Returns the place of a port in the group.
    pub(crate) fn place(self: &Arc<Exchange>, port: &str) -> Option<ExchangePlace> {
        let number = self.spec.ports.iter().position(|name| name == port)?;
        Some(ExchangePlace { exchange: self.clone(), number: number as u16 })
    }

    fn group(&self) -> Result<&Arc<Group>, String> {
        let make = || {
            let ExchangeSpec { ports, buffers, buffer_size, threshold } = &self.spec;
            let geometry = Geometry::new(*buffers, *buffer_size).ok_or("there can't be such buffers")?;
            let measured =
                || trial::threshold(true).map_err(|error| format!("its threshold can't be measured: {error}"));
            let threshold = threshold.map_or_else(measured, Ok)?;
            let options = GroupOptions { ports: ports.len() as u16, geometry, threshold, huge: true };
            Group::new(options).map_err(|error| format!("there is no memory for the group's buffers: {error}"))
        };
        self.group.get_or_init(make).as_ref().map_err(Clone::clone)
    }

    /// Returns what was exchanged and copied.
    pub(crate) fn stats(&self) -> ExchangeStats {
        let ExchangeSpec { ports, buffers, buffer_size, threshold } = &self.spec;
        let made = self.group.get();
        let group = made.and_then(|made| made.as_ref().ok());
        let mut pairs = Vec::new();
        if let Some(group) = group {
            // Behind the ports is the row of frames from outside.
            for from in 0..=ports.len() {
                for (to, name) in ports.iter().enumerate() {
                    let counts = group.counts(from as u16, to as u16);
                    let copied = Copied::ALL.map(|reason| (reason.name().to_owned(), counts.copied(reason)));
                    let pair = ExchangePair {
                        from: ports.get(from).cloned(),
                        to: name.clone(),
                        exchanged: counts.exchanged(),
                        copied: copied.into_iter().filter(|(_, count)| *count > 0).collect(),
                    };
                    if pair.exchanged > 0 || !pair.copied.is_empty() {
                        pairs.push(pair);
                    }
                }
            }
        }
        ExchangeStats {
            ports: ports.clone(),
            mode: "group".into(),
            threshold: group.map(|group| group.options().threshold).or(*threshold),
            measured: threshold.is_none(),
            buffer_size: *buffer_size,
            buffers: *buffers,
            free: group.map_or(usize::from(*buffers), |group| group.free()),
            functions: group.map_or(0, |group| group.functions()),
            reason: made.and_then(|made| made.as_ref().err().cloned()),
            pairs,
        }
    }
}

/// A port's place in a group.
#[derive(Clone)]
pub(crate) struct ExchangePlace {
    exchange: Arc<Exchange>,
    number: u16,
}

impl ExchangePlace {
    /// Returns the seat of a function that wants so many buffers, and what it is told.
    pub(crate) fn join(&self, token: u64, wanted: u16) -> Result<(Arc<Seat>, Grant), String> {
        let seat = self.exchange.group()?.join(token, wanted).map_err(|error| error.to_string())?;
        let grant = Grant::of(&seat);
        Ok((seat, grant))
    }

    /// Returns the queue of a function that shares `memory`, if the group's is in it.
    pub(crate) fn joined(&self, seat: &Arc<Seat>, memory: &Memory) -> Option<Joined> {
        Joined::find(seat, self.number, memory)
    }
}
