//! The whole data path in one process: NIC, switch and network function, each with its own ends of common rings. All of them
//! access the same memory at the same addresses, as a physically addressed cache would see it.

use super::pattern::Way;
use super::setup::Setup;
use crate::ring_format::RingFormat;
use engine::port::vhost_user::{Call, VhostReceive, VhostTransmit};
use engine::port::virtio_user::{QueueResources, STRIDE, VirtioReceive, VirtioTransmit};
use engine::port::zero_copy::Mapped;
use engine::worker::{ByHand, InPlace};
use loadgen::load::Misused;
use loadgen::wire::{Broken, Device, Function, FunctionError, NicRings};
use std::sync::Arc;
use vhost_user::frontend::{QueueEnd, QueuePair, QueueSizes};
use virtqueue::device::{Dequeue, Enqueue};
use virtqueue::driver::Queue;
use virtqueue::memory::{Arena, MemoryError};
use virtqueue::{Negotiated, QueueConfig, SetupError, features};

/// Error of setting up or running.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum RigError {
    #[error("no memory: {0}")]
    Memory(#[from] MemoryError),
    #[error("a queue could not be set up: {0}")]
    Setup(#[from] SetupError),
    #[error("an eventfd can't be made: {0}")]
    Event(#[from] std::io::Error),
    #[error(transparent)]
    Nic(#[from] Broken),
    #[error(transparent)]
    Function(#[from] FunctionError),
    #[error(transparent)]
    Misused(#[from] Misused),
    #[error("{copied} frames were copied where their buffers should have been exchanged")]
    NotExchanged { copied: u64 },
    #[error("{received} frames came back where {wanted} should have, {corrupt} of them changed")]
    Wrong { received: u64, wanted: u64, corrupt: u64 },
}

/// All parts.
pub struct Rig {
    pub nic: Device,
    pub function: Function,
    /// Forwarding from the NIC to the network function, and back.
    pub there: ByHand,
    pub back: ByHand,
    /// Maximum number of frames in flight.
    pub window: u64,
}

impl Rig {
    /// Creates a rig whose NIC compares the frames that come back if `checked`.
    pub fn new(setup: &Setup, checked: bool) -> Result<Rig, RigError> {
        let Setup { pattern, physical, guest, .. } = *setup;
        let (receive, transmit) = (pattern.receive(), pattern.transmit());
        let mapped = receive == Way::Zero || transmit == Way::Zero;
        let [nic_features, guest_features] = negotiated(setup.ring, mapped);
        let buffers = |size: u16| u64::from(size) * u64::from(STRIDE);
        let len = 2 * (buffers(physical.receive) + buffers(physical.transmit)) + (1 << 20);
        let mut arena = Arena::new(len + Function::footprint(guest_features, guest, setup.size), false)?;
        if transmit == Way::Fake {
            arena.omit_copies();
        }
        let [nic_to, nic_from] = rings(&mut arena, physical, nic_features);
        let places = [physical.receive, physical.transmit]
            .map(|size| arena.allocate(buffers(size), 4096).expect("the arena was made to fit"));
        let [guest_to, guest_from] = rings(&mut arena, guest, guest_features);
        let pair = QueuePair { receive: driver(&arena, guest_to)?, transmit: driver(&arena, guest_from)? };
        let function = Function::new(&mut arena, pair, setup.size);
        let arena = Arc::new(arena);

        // The guest side of the switch.
        let memory = arena.memory().clone();
        let to_guest = Enqueue::new(memory.clone(), &guest_to)?;
        let to_guest = if receive == Way::Fake { to_guest.without_copies() } else { to_guest };
        let mut from_guest = Dequeue::new(memory.clone(), &guest_from)?;
        if transmit == Way::Zero {
            from_guest.allow_keeping();
        }
        let mapping = Arc::new(Mapped::new(true, Some(0)));
        mapping.set_reachable((receive == Way::Zero).then(|| memory.clone()));
        mapping.set_in_place_from(from_guest.id());
        let to_guest = VhostTransmit::new(to_guest, Call::new(None), Arc::default(), Arc::default());
        let from_guest = VhostReceive::new(from_guest, None, Call::new(None), Arc::default(), Arc::default());

        // The NIC side. It gets the guest's buffers by their addresses in this process.
        let mut ends = Vec::new();
        for (config, buffers) in [nic_to, nic_from].into_iter().zip(places) {
            let queue = driver(&arena, config)?;
            ends.push(QueueResources {
                queue,
                buffers,
                arena: arena.clone(),
                broken: Arc::default(),
                drops: Arc::default(),
            });
        }
        let memory = Arc::new(memory.also_by_host());
        let device = NicRings::of(Enqueue::new(memory.clone(), &nic_to)?, Dequeue::new(memory, &nic_from)?);
        let nic = Device::new(device, setup.size, checked);
        let to_nic = ends.pop().expect("there are two");
        let from_nic = ends.pop().expect("there are two");
        let lent = (receive == Way::Zero).then(|| mapping.clone());
        let mergeable = nic_features.has(features::MRG_RXBUF);
        let from_nic = VirtioReceive::new(from_nic, mergeable, lent, 0);
        let to_nic = VirtioTransmit::new(to_nic, mapped.then_some(mapping));
        Ok(Rig {
            nic,
            function,
            there: ByHand::new(
                Box::new(from_nic),
                Box::new(to_guest),
                if mapped { InPlace::ToGuest } else { InPlace::Never },
            ),
            back: ByHand::new(
                Box::new(from_guest),
                Box::new(to_nic),
                if mapped { InPlace::FromGuest } else { InPlace::Never },
            ),
            window: setup.window().into(),
        })
    }
}

/// Returns a NIC and a network function on one pair of rings, without a switch between them.
pub fn without_switch(setup: &Setup) -> Result<(Device, Function), RigError> {
    let [_, features] = negotiated(setup.ring, false);
    let mut arena = Arena::new(Function::footprint(features, setup.guest, setup.size), false)?;
    let [to, from] = rings(&mut arena, setup.guest, features);
    let pair = QueuePair { receive: driver(&arena, to)?, transmit: driver(&arena, from)? };
    let function = Function::new(&mut arena, pair, setup.size);
    let memory = arena.memory().clone();
    let rings = NicRings::of(Enqueue::new(memory.clone(), &to)?, Dequeue::new(memory, &from)?);
    Ok((Device::new(rings, setup.size, true), function))
}

/// Returns the features that the switch negotiates with the NIC and with the guest.
fn negotiated(ring: RingFormat, mapped: bool) -> [Negotiated; 2] {
    let common = features::VERSION_1 | if ring == RingFormat::Packed { features::RING_PACKED } else { 0 };
    let nic = features::IN_ORDER | if mapped { 0 } else { features::MRG_RXBUF };
    let guest = features::MRG_RXBUF | if mapped { 0 } else { features::IN_ORDER };
    [Negotiated(common | nic), Negotiated(common | guest)]
}

fn rings(arena: &mut Arena, sizes: QueueSizes, negotiated: Negotiated) -> [QueueConfig; 2] {
    [sizes.receive, sizes.transmit]
        .map(|size| Queue::layout(arena, size, negotiated).expect("the arena was made to fit"))
}

fn driver(arena: &Arena, config: QueueConfig) -> Result<QueueEnd, RigError> {
    Ok(QueueEnd::create(Queue::new(arena, &config)?, config)?)
}
