//! The record of a queue: it names the holder of each half.

use super::crew::Crew;
use crate::stage::egress::Egress;
use crate::stage::ingress::Ingress;
use crate::stage::shared::Shared;
use crate::switch::layout::{Sender, Wiring};
use crate::worker::Pulse;
use std::sync::Arc;

/// The holders of a queue's halves.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) receive: Receive,
    pub(super) transmit: Transmit,
    receive_keepers: Keepers,
    transmit_keepers: Keepers,
}

/// The holder of a receive half.
#[derive(Default)]
pub(super) enum Receive {
    /// Nobody: the queue is down.
    #[default]
    Down,
    /// The fabric, as no worker polls the queue by the layout, or none does yet.
    Parked(Ingress),
    /// A worker, which polls it this way.
    Polled(Wiring),
    /// Several workers, which share it.
    Crew(Crew),
}

/// The holder of a transmit half.
#[derive(Default)]
pub(super) enum Transmit {
    /// Nobody: the queue is down.
    #[default]
    Down,
    /// The fabric, as no worker sends there by the layout, or none does yet.
    Parked(Egress),
    /// The only output that sends there.
    Own(Sender),
    /// All outputs and mirrors that send there. The queue may be down.
    Shared(Arc<Shared>),
}

/// A half of a queue.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Receive,
    Transmit,
}

/// Workers that were asked for a half, and have not responded: a former half is stranded with them, and may be in use.
#[derive(Default)]
pub(super) struct Keepers(Vec<Arc<Pulse>>);

impl Keepers {
    /// Reports whether this worker is one of them.
    pub(super) fn has(&self, pulse: &Arc<Pulse>) -> bool {
        self.0.iter().any(|keeper| Arc::ptr_eq(keeper, pulse))
    }

    /// Adds workers.
    pub(super) fn add<'p>(&mut self, pulses: impl Iterator<Item = &'p Arc<Pulse>>) {
        self.0.extend(pulses.cloned());
    }

    /// Removes workers, which have responded.
    pub(super) fn forget(&mut self, responded: &[Arc<Pulse>]) {
        self.0.retain(|keeper| responded.iter().all(|pulse| !Arc::ptr_eq(keeper, pulse)));
    }
}

impl Queue {
    /// Reports whether there is nothing to know about it.
    pub(super) fn is_down(&self) -> bool {
        let Queue { receive, transmit, receive_keepers, transmit_keepers } = self;
        matches!((receive, transmit), (Receive::Down, Transmit::Down))
            && receive_keepers.0.is_empty()
            && transmit_keepers.0.is_empty()
    }

    /// Returns the workers that may still have a former half.
    pub(super) fn keepers(&mut self, side: Side) -> &mut Keepers {
        match side {
            Side::Receive => &mut self.receive_keepers,
            Side::Transmit => &mut self.transmit_keepers,
        }
    }

    /// Takes the receive half, if the fabric has it.
    pub(super) fn take_receive(&mut self) -> Option<Ingress> {
        match std::mem::take(&mut self.receive) {
            Receive::Parked(ingress) => Some(ingress),
            other => {
                self.receive = other;
                None
            }
        }
    }

    /// Takes the transmit half, if the fabric has it.
    pub(super) fn take_transmit(&mut self) -> Option<Egress> {
        match std::mem::take(&mut self.transmit) {
            Transmit::Parked(egress) => Some(egress),
            other => {
                self.transmit = other;
                None
            }
        }
    }

    /// Returns the workers that drive stages of the queue.
    pub(super) fn workers(&self) -> Vec<usize> {
        let mut workers = match &self.receive {
            Receive::Polled(wiring) => vec![wiring.worker],
            Receive::Crew(crew) => crew.wiring.lanes.iter().map(|lane| lane.worker).collect(),
            Receive::Down | Receive::Parked(_) => Vec::new(),
        };
        if let Transmit::Own(sender) = &self.transmit {
            workers.push(sender.worker);
        }
        workers
    }
}
