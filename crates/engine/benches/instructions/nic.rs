//! A worker between a NIC and a network function, mapped or not: both stand still while it works.

use engine::port::vhost_user::{Call, VhostReceive, VhostTransmit};
use engine::port::virtio_user::{QueueResources, STRIDE, VirtioReceive, VirtioTransmit};
use engine::port::zero_copy::Mapped;
use engine::worker::{ByHand, InPlace};
use packet::{BurstStorage, MAX_BURST, Segment};
use std::sync::Arc;
use vhost_user::frontend::QueueEnd;
use virtqueue::device::{Dequeue, Enqueue};
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::Arena;
use virtqueue::{NET_HEADER, Negotiated, QueueConfig, features};

/// Descriptors of each ring, and buffers of the network function.
const SIZE: u16 = 256;

/// Bytes of a buffer.
const ROOM: u32 = 2048;

/// Bursts that pass before the one that counts: a trial of the NIC ends, and every ring has gone round.
const BEFORE: usize = 40;

/// Bytes of a frame.
const LEN: u32 = 64;

/// The way of frames between NIC and function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Mapped,
    Copied,
}

/// NIC, switch, and a network function that sends every frame back in the buffer in which it came.
pub struct Rig {
    nic_to: Enqueue,
    nic_from: Dequeue,
    there: ByHand,
    back: ByHand,
    posted: Queue,
    sent: Queue,
    /// Guest address of the buffer of each chain, by id.
    in_posted: [u64; SIZE as usize],
    in_sent: [u64; SIZE as usize],
    storage: Box<BurstStorage>,
}

impl Rig {
    fn new(packed: bool, way: Way) -> Rig {
        let mut arena = Arena::new(8 << 20, false).expect("there is memory");
        let common = features::VERSION_1 | if packed { features::RING_PACKED } else { 0 };
        // As the switch negotiates them: buffers of a mapped guest come back in any order.
        let (nic, guest) = match way {
            Way::Mapped => (features::IN_ORDER, features::MRG_RXBUF),
            Way::Copied => (features::IN_ORDER | features::MRG_RXBUF, features::IN_ORDER | features::MRG_RXBUF),
        };
        let (nic, guest) = (Negotiated(common | nic), Negotiated(common | guest));
        let mut ring = |negotiated| Queue::layout(&mut arena, SIZE, negotiated).expect("it fits");
        let (nic_rx, nic_tx, guest_rx, guest_tx) = (ring(nic), ring(nic), ring(guest), ring(guest));
        let own = u64::from(SIZE) * u64::from(STRIDE);
        let [own_rx, own_tx] = [(); 2].map(|()| arena.allocate(own, 4096).expect("it fits"));
        let buffers = arena.allocate(u64::from(SIZE) * u64::from(ROOM), 4096).expect("it fits");
        let arena = Arc::new(arena);
        let memory = arena.memory().clone();
        let driver = |ring: &QueueConfig| Queue::new(&arena, ring).expect("it is valid");

        let to_guest = Enqueue::new(memory.clone(), &guest_rx).expect("it is valid");
        let mut from_guest = Dequeue::new(memory.clone(), &guest_tx).expect("it is valid");
        let mapped = (way == Way::Mapped).then(|| {
            from_guest.allow_keeping();
            let mapped = Arc::new(Mapped::new(true, Some(0)));
            mapped.set_reachable(Some(memory.clone()));
            mapped.set_in_place_from(from_guest.id());
            mapped
        });
        let end = |ring: QueueConfig, buffers| QueueResources {
            queue: QueueEnd::create(driver(&ring), ring).expect("there are descriptors"),
            buffers,
            arena: arena.clone(),
            broken: Arc::default(),
        };
        let mergeable = nic.has(features::MRG_RXBUF);
        let from_nic = VirtioReceive::new(end(nic_rx, own_rx), mergeable, mapped.clone(), 0);
        let to_nic = VirtioTransmit::new(end(nic_tx, own_tx), mapped);
        let to_guest = VhostTransmit::new(to_guest, Call::new(None), Arc::default(), Arc::default());
        let from_guest = VhostReceive::new(from_guest, None, Call::new(None), Arc::default(), Arc::default());

        let (there, back) = match way {
            Way::Mapped => (InPlace::ToGuest, InPlace::FromGuest),
            Way::Copied => (InPlace::Never, InPlace::Never),
        };

        // The NIC gets the guest's buffers by their addresses in this process.
        let memory = Arc::new(memory.also_by_host());
        let mut rig = Rig {
            nic_to: Enqueue::new(memory.clone(), &nic_rx).expect("it is valid"),
            nic_from: Dequeue::new(memory, &nic_tx).expect("it is valid"),
            there: ByHand::new(Box::new(from_nic), Box::new(to_guest), there),
            back: ByHand::new(Box::new(from_guest), Box::new(to_nic), back),
            posted: driver(&guest_rx),
            sent: driver(&guest_tx),
            in_posted: [0; SIZE as usize],
            in_sent: [0; SIZE as usize],
            storage: Box::default(),
        };
        (0..SIZE).for_each(|i| rig.post(buffers + u64::from(i) * u64::from(ROOM)));
        rig.posted.publish();
        rig.there.round();
        rig
    }

    fn post(&mut self, addr: u64) {
        let id = self.posted.add(&[Buffer { addr, len: ROOM, writable: true }]).expect("each buffer is posted once");
        self.in_posted[usize::from(id)] = addr;
    }

    /// Fills a burst of buffers that the switch offered.
    fn nic_receives(&mut self) {
        let bytes = [7; LEN as usize];
        let mut burst = self.storage.start();
        (0..MAX_BURST).for_each(|_| burst.push(Segment::from(&bytes[..])));
        let done = self.nic_to.transmit(burst.frames()).expect("the switch keeps the rules");
        assert_eq!(done.frames as usize, MAX_BURST);
    }

    /// Sends the frames that the function got, and posts the buffers of the frames that the NIC has sent.
    fn function_works(&mut self) {
        while let Some(used) = self.sent.pop_used().expect("the switch keeps the rules") {
            self.post(self.in_sent[usize::from(used.id)]);
        }
        self.posted.publish();
        while let Some(used) = self.posted.pop_used().expect("the switch keeps the rules") {
            let addr = self.in_posted[usize::from(used.id)];
            let id = self.sent.add(&[Buffer { addr, len: used.len, writable: false }]).expect("there is room");
            assert_eq!(used.len, LEN + NET_HEADER);
            self.in_sent[usize::from(id)] = addr;
        }
        self.sent.publish();
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
        self.function_works();
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
    rig.function_works();
    rig
}
