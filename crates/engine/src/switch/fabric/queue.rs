//! The record of a queue: it names the holder of each half.

use super::crew::Crew;
use crate::stage::egress::Egress;
use crate::stage::ingress::Ingress;
use crate::stage::shared::Shared;
use crate::switch::layout::{Sender, Wiring};
use std::sync::Arc;

/// The holders of a queue's halves.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) receive: Receive,
    pub(super) transmit: Transmit,
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
    /// This worker, which was asked for it and has not responded yet.
    Stranded(usize),
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
    /// This worker, which was asked for it and has not responded yet.
    Stranded(usize),
}

impl Queue {
    /// Reports whether there is nothing to know about it.
    pub(super) fn is_down(&self) -> bool {
        matches!(self, Queue { receive: Receive::Down, transmit: Transmit::Down })
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

    /// Forgets halves that these workers keep.
    pub(super) fn forget_stranded(&mut self, with: impl Fn(usize) -> bool) {
        if matches!(self.receive, Receive::Stranded(worker) if with(worker)) {
            self.receive = Receive::Down;
        }
        if matches!(self.transmit, Transmit::Stranded(worker) if with(worker)) {
            self.transmit = Transmit::Down;
        }
    }

    /// Returns the workers that drive stages of the queue.
    pub(super) fn workers(&self) -> Vec<usize> {
        let mut workers = match &self.receive {
            Receive::Polled(wiring) => vec![wiring.worker],
            Receive::Crew(crew) => crew.wiring.lanes.iter().map(|lane| lane.worker).collect(),
            Receive::Down | Receive::Parked(_) | Receive::Stranded(_) => Vec::new(),
        };
        if let Transmit::Own(sender) = &self.transmit {
            workers.push(sender.worker);
        }
        workers
    }
}
