//! A worker between a NIC and a network function, mapped or not: both stand still while it works.

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

/// The way of frames between NIC and function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Mapped,
    MappedInBridge,
    Copied,
    CopiedInBridge,
}

impl Way {
    fn is_mapped(self) -> bool {
        matches!(self, Way::Mapped | Way::MappedInBridge)
    }

    fn is_in_bridge(self) -> bool {
        matches!(self, Way::MappedInBridge | Way::CopiedInBridge)
    }
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
        // As the switch negotiates them: buffers of a mapped guest come back in any order.
        let both = features::IN_ORDER | features::MRG_RXBUF;
        let (nic, guest) = if way.is_mapped() { (features::IN_ORDER, features::MRG_RXBUF) } else { (both, both) };
        let (nic, guest) = (Negotiated(common | nic), Negotiated(common | guest));
        let mut ring = |negotiated| Queue::layout(&mut arena, SIZE, negotiated).expect("it fits");
        let (nic_rx, nic_tx, guest_rx, guest_tx) = (ring(nic), ring(nic), ring(guest), ring(guest));
        let own = u64::from(SIZE) * u64::from(STRIDE);
        let [own_rx, own_tx] = [(); 2].map(|()| arena.allocate(own, 4096).expect("it fits"));
        let buffers = arena.allocate(Function::BUFFERS, 4096).expect("it fits");
        let arena = Arc::new(arena);
        let memory = arena.memory().clone();
        let to_guest = Enqueue::new(memory.clone(), &guest_rx).expect("it is valid");
        let mut from_guest = Dequeue::new(memory.clone(), &guest_tx).expect("it is valid");
        let mapped = way.is_mapped().then(|| {
            from_guest.allow_keeping();
            let mapped = Arc::new(Mapped::new(!way.is_in_bridge(), Some(0)));
            mapped.set_reachable(Some(memory.clone()));
            mapped.set_in_place_from(from_guest.id());
            mapped
        });
        let end = |ring: QueueConfig, buffers| QueueResources {
            queue: QueueEnd::create(Queue::new(&arena, &ring).expect("it is valid"), ring)
                .expect("there are descriptors"),
            buffers,
            arena: arena.clone(),
            broken: Arc::default(),
            drops: Arc::default(),
        };
        let mergeable = nic.has(features::MRG_RXBUF);
        let from_nic = VirtioReceive::new(end(nic_rx, own_rx), mergeable, mapped.clone(), 0);
        let to_nic = VirtioTransmit::new(end(nic_tx, own_tx), mapped);
        let to_guest = VhostTransmit::new(to_guest, Call::new(None), Arc::default(), Arc::default());
        let from_guest = VhostReceive::new(from_guest, None, Call::new(None), Arc::default(), Arc::default());

        let (there, back) =
            if way.is_mapped() { (InPlace::ToGuest, InPlace::FromGuest) } else { (InPlace::Never, InPlace::Never) };
        let destination = [Key::of(MacAddr(ADDRESSES.0), 0)];
        let worker = |from: Box<dyn RxQueue>, to: Box<dyn TxQueue>, ends| {
            if way.is_in_bridge() {
                ByHand::through_bridge(from, to, &destination, ends)
            } else {
                ByHand::new(from, to, ends)
            }
        };

        // The NIC gets the guest's buffers by their addresses in this process.
        let memory = Arc::new(memory.also_by_host());
        let mut rig = Rig {
            nic_to: Enqueue::new(memory.clone(), &nic_rx).expect("it is valid"),
            nic_from: Dequeue::new(memory, &nic_tx).expect("it is valid"),
            there: worker(Box::new(from_nic), Box::new(to_guest), there),
            back: worker(Box::new(from_guest), Box::new(to_nic), back),
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

    /// Forwards a burst from the NIC, which came in the function's buffers if they are mapped.
    pub fn receive(&mut self) -> bool {
        self.there.round()
    }

    /// Forwards a burst to the NIC, from where it lies if they are mapped, and takes back the one before.
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
