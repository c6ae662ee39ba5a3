//! A worker between a NIC and a network function that are mapped: both stand still while it works.

use crate::function::{Function, LEN, SIZE};
use engine::forward::mac_table::Key;
use engine::port::vhost_user::{Call, VhostReceive, VhostTransmit};
use engine::port::virtio_user::{QueueResources, STRIDE, VirtioReceive, VirtioTransmit};
use engine::port::zero_copy::Mapped;
use engine::port::{RxQueue, TxQueue};
use engine::worker::{ByHand, InPlace};
use packet::{BurstStorage, MAX_BURST, MacAddr, Segment};
use std::sync::Arc;
use vhost_user::frontend::QueueEnd;
use virtqueue::device::{Dequeue, Enqueue};
use virtqueue::driver::Queue;
use virtqueue::memory::Arena;
use virtqueue::{Negotiated, QueueConfig, features};

/// Bursts that pass before the one that counts: a trial of the NIC ends, and every ring has gone round.
const BEFORE: usize = 40;

/// Addresses of a frame: to one station, from another.
const ADDRESSES: ([u8; 6], [u8; 6]) = ([6; 6], [8; 6]);

/// The way of frames between the two ports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Patch,
    Bridge,
}

/// NIC, switch, and a network function that sends every frame back in the buffer in which it came.
pub struct Rig {
    nic_to: Enqueue,
    nic_from: Dequeue,
    there: ByHand,
    back: ByHand,
    function: Function,
    storage: Box<BurstStorage>,
}

impl Rig {
    fn new(packed: bool, way: Way) -> Rig {
        let mut arena = Arena::new(8 << 20, false).expect("there is memory");
        let common = features::VERSION_1 | if packed { features::RING_PACKED } else { 0 };
        let (nic, guest) = (Negotiated(common | features::IN_ORDER), Negotiated(common | features::MRG_RXBUF));
        let mut ring = |negotiated| Queue::layout(&mut arena, SIZE, negotiated).expect("it fits");
        let (nic_rx, nic_tx, guest_rx, guest_tx) = (ring(nic), ring(nic), ring(guest), ring(guest));
        let own = u64::from(SIZE) * u64::from(STRIDE);
        let [own_rx, own_tx] = [(); 2].map(|()| arena.allocate(own, 4096).expect("it fits"));
        let buffers = arena.allocate(Function::BUFFERS, 4096).expect("it fits");
        let arena = Arc::new(arena);
        let memory = arena.memory().clone();
        let to_guest = Enqueue::new(memory.clone(), &guest_rx).expect("it is valid");
        let mut from_guest = Dequeue::new(memory.clone(), &guest_tx).expect("it is valid");
        from_guest.allow_keeping();
        let mapped = Arc::new(Mapped::new(way == Way::Patch, Some(0)));
        mapped.set_reachable(Some(memory.clone()));
        mapped.set_in_place_from(from_guest.id());
        let end = |ring: QueueConfig, buffers| QueueResources {
            queue: QueueEnd::create(Queue::new(&arena, &ring).expect("it is valid"), ring)
                .expect("there are descriptors"),
            buffers,
            arena: arena.clone(),
            broken: Arc::default(),
        };
        let from_nic = VirtioReceive::new(end(nic_rx, own_rx), false, Some(mapped.clone()), 0);
        let to_nic = VirtioTransmit::new(end(nic_tx, own_tx), Some(mapped));
        let to_guest = VhostTransmit::new(to_guest, Call::new(None), Arc::default(), Arc::default());
        let from_guest = VhostReceive::new(from_guest, None, Call::new(None), Arc::default(), Arc::default());

        let destination = [Key::of(MacAddr(ADDRESSES.0), 0)];
        let worker = |from: Box<dyn RxQueue>, to: Box<dyn TxQueue>, ends| match way {
            Way::Patch => ByHand::new(from, to, ends),
            Way::Bridge => ByHand::through_bridge(from, to, &destination, ends),
        };

        // The NIC gets the guest's buffers by their addresses in this process.
        let memory = Arc::new(memory.also_by_host());
        let mut rig = Rig {
            nic_to: Enqueue::new(memory.clone(), &nic_rx).expect("it is valid"),
            nic_from: Dequeue::new(memory, &nic_tx).expect("it is valid"),
            there: worker(Box::new(from_nic), Box::new(to_guest), InPlace::ToGuest),
            back: worker(Box::new(from_guest), Box::new(to_nic), InPlace::FromGuest),
            function: Function::new(&arena, [&guest_rx, &guest_tx], buffers),
            storage: Box::default(),
        };
        rig.there.round();
        rig
    }

    /// Fills a burst of buffers that the switch offered.
    fn nic_receives(&mut self) {
        let mut bytes = [7; LEN as usize];
        bytes[..6].copy_from_slice(&ADDRESSES.0);
        bytes[6..12].copy_from_slice(&ADDRESSES.1);
        let mut burst = self.storage.start();
        (0..MAX_BURST).for_each(|_| burst.push(Segment::from(&bytes[..])));
        let done = self.nic_to.transmit(burst.frames()).expect("the switch keeps the rules");
        assert_eq!(done.frames as usize, MAX_BURST);
    }

    fn nic_sends(&mut self) {
        let mut burst = self.storage.start();
        let taken = self.nic_from.receive(&mut burst).expect("the switch keeps the rules");
        assert_eq!(taken, MAX_BURST);
        self.nic_from.recycle();
    }

    /// Passes a burst there and back.
    fn pass(&mut self) {
        self.nic_receives();
        assert!(self.receive());
        self.function.work();
        assert!(self.transmit());
        self.nic_sends();
    }

    /// Forwards a burst from the NIC, which came in the function's buffers.
    pub fn receive(&mut self) -> bool {
        self.there.round()
    }

    /// Forwards a burst to the NIC, from where it lies, and takes back the one before.
    pub fn transmit(&mut self) -> bool {
        self.back.round()
    }
}

/// Returns a rig that has a burst to receive.
pub fn about_to_receive(packed: bool, way: Way) -> Rig {
    let mut rig = Rig::new(packed, way);
    (0..BEFORE).for_each(|_| rig.pass());
    rig.nic_receives();
    rig
}

/// Returns a rig that has a burst to transmit.
pub fn about_to_transmit(packed: bool, way: Way) -> Rig {
    let mut rig = about_to_receive(packed, way);
    assert!(rig.receive());
    rig.function.work();
    rig
}
