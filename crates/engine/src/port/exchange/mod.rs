//! Ports whose functions exchange the buffers or pages of frames instead of having frames copied.

mod group;
mod pages;
mod spec;

use crate::stats::{ExchangePair, ExchangeStats};
use group::GroupExchange;
use pages::PageExchange;
pub use spec::{DEFAULT_BUFFER_SIZE, DEFAULT_BUFFERS, ExchangeMode, ExchangeSpec, MOST_BUFFERS};
use std::sync::Arc;
use vhost_user::backend;
use virtqueue::exchange::{Copied, Counts, Grant, Joined, PageMember, Seat};
use virtqueue::memory::Memory;

/// Ports that exchange.
pub(crate) struct Exchange {
    spec: ExchangeSpec,
    by: By,
}

/// The way in which they exchange.
enum By {
    Group(GroupExchange),
    Pages(PageExchange),
}

/// The part of a queue in an exchange.
pub(crate) enum Part {
    Group(Joined),
    Pages(Arc<PageMember>),
}

impl Exchange {
    pub(crate) fn new(spec: ExchangeSpec) -> Exchange {
        let ports = spec.ports.len() as u16;
        let by = match spec.mode {
            ExchangeMode::Group { buffers, buffer_size } => {
                By::Group(GroupExchange::new(ports, buffers, buffer_size, spec.threshold))
            }
            ExchangeMode::Zcopy { ref device } => By::Pages(PageExchange::new(ports, device, spec.threshold)),
        };
        Exchange { spec, by }
    }

    pub(crate) fn spec(&self) -> &ExchangeSpec {
        &self.spec
    }

    pub(crate) fn place(self: &Arc<Exchange>, port: &str) -> Option<ExchangeMember> {
        let number = self.spec.ports.iter().position(|name| name == port)?;
        Some(ExchangeMember { exchange: self.clone(), number: number as u16 })
    }

    pub(crate) fn stats(&self) -> ExchangeStats {
        let ExchangeSpec { ports, mode, threshold } = &self.spec;
        let stats = ExchangeStats {
            ports: ports.clone(),
            mode: mode.name().into(),
            measured: threshold.is_none(),
            ..ExchangeStats::default()
        };
        match &self.by {
            By::Group(group) => ExchangeStats {
                threshold: group.threshold(),
                buffers: Some(group.buffers()),
                functions: group.functions(),
                reason: group.reason(),
                pairs: self.pairs(|from, to| group.counts(from, to)),
                ..stats
            },
            By::Pages(pages) => ExchangeStats {
                threshold: pages.threshold(),
                functions: pages.functions(),
                reason: pages.reason(),
                pairs: self.pairs(|from, to| pages.counts(from, to)),
                ..stats
            },
        }
    }

    fn pairs(&self, counts: impl Fn(u16, u16) -> Counts) -> Vec<ExchangePair> {
        let ports = &self.spec.ports;
        let mut pairs = Vec::new();
        // Behind the ports is the row of frames from outside.
        for from in 0..=ports.len() {
            for (to, name) in ports.iter().enumerate() {
                let counts = counts(from as u16, to as u16);
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
        pairs
    }
}

/// A port's place in an exchange.
#[derive(Clone)]
pub(crate) struct ExchangeMember {
    exchange: Arc<Exchange>,
    number: u16,
}

impl ExchangeMember {
    /// Returns the exchange that the port offers to functions, if any.
    pub(crate) fn offered(&self) -> Option<backend::Exchange> {
        match &self.exchange.by {
            By::Group(_) => Some(backend::Exchange::Group),
            By::Pages(pages) => pages.device().map(|device| backend::Exchange::Pages { device }),
        }
    }

    /// Returns the seat of a function that wants `wanted` buffers, and the grant for it.
    pub(crate) fn join(&self, token: u64, wanted: u16) -> Result<(Arc<Seat>, Grant), String> {
        match &self.exchange.by {
            By::Group(group) => group.join(token, wanted),
            By::Pages(_) => Err("the port's [[exchange]] is of mode zcopy, and has no buffers of its own".into()),
        }
    }

    /// Returns how a queue of a function that shares `memory` takes part; in a group, it has this `seat`.
    pub(crate) fn part(&self, seat: Option<&Arc<Seat>>, memory: &Arc<Memory>) -> Option<Part> {
        match &self.exchange.by {
            By::Group(_) => Joined::find(seat?, self.number, memory).map(Part::Group),
            By::Pages(pages) => pages.member(self.number, memory).map(Part::Pages),
        }
    }
}
