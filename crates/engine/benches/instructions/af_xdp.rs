//! A worker between an AF_XDP queue and a network function: both stand still while it works, and so does the kernel.

use crate::function::{Function, LEN, SIZE};
use engine::port::af_xdp::Nic;
use engine::port::vhost_user::{Call, VhostReceive, VhostTransmit};
use engine::port::zero_copy::Mapped;
use engine::worker::{ByHand, InPlace};
use packet::MAX_BURST;
use std::sync::Arc;
use virtqueue::device::{Dequeue, Enqueue};
use virtqueue::driver::Queue;
use virtqueue::memory::Arena;
use virtqueue::{Negotiated, features};

/// Bursts that pass before the one that counts: every ring has gone round.
const BEFORE: usize = 40;

/// Kernel, switch, and network function.
pub struct Rig {
    nic: Nic,
    there: ByHand,
    back: ByHand,
    function: Function,
}

impl Rig {
    /// Returns a rig whose function has these rings; if it is `mapped`, frames stay in place.
    fn new(packed: bool, mapped: bool) -> Rig {
        let mut arena = Arena::new(8 << 20, false).expect("there is memory");
        let format = if packed { features::RING_PACKED } else { 0 };
        let negotiated = Negotiated(features::VERSION_1 | features::MRG_RXBUF | format);
        let mut ring = || Queue::layout(&mut arena, SIZE, negotiated).expect("it fits");
        let (rx, tx) = (ring(), ring());
        let buffers = arena.allocate(Function::BUFFERS, 4096).expect("it fits");
        let arena = Arc::new(arena);
        let memory = arena.memory();

        let to_guest = Enqueue::new(memory.clone(), &rx).expect("it is valid");
        let mut from_guest = Dequeue::new(memory.clone(), &tx).expect("it is valid");
        let mut mapping = None;
        if mapped {
            from_guest.allow_keeping();
            let mapped = Mapped::new(true, Some(0));
            mapped.set_reachable(Some(memory.clone()));
            mapped.set_in_place_from(from_guest.id());
            mapping = Some(Arc::new(mapped));
        }
        let (from_nic, to_nic, nic) = Nic::open(arena.clone(), SIZE, mapping, false).expect("it is valid");
        let to_guest = VhostTransmit::new(to_guest, Call::new(None), Arc::default(), Arc::default());
        let from_guest = VhostReceive::new(from_guest, None, Call::new(None), Arc::default(), Arc::default());
        let ends = |direction| if mapped { direction } else { InPlace::Never };
        let function = Function::new(&arena, [&rx, &tx], buffers);
        let mut rig = Rig {
            nic,
            there: ByHand::new(Box::new(from_nic), Box::new(to_guest), ends(InPlace::ToGuest)),
            back: ByHand::new(Box::new(from_guest), Box::new(to_nic), ends(InPlace::FromGuest)),
            function,
        };
        rig.there.round();
        rig
    }

    /// Fills a burst of buffers that the switch offered.
    fn kernel_receives(&mut self) {
        for _ in 0..MAX_BURST {
            let filled = self.nic.kernel.take_filled().expect("the switch offers as many");
            self.nic.receive(filled, &[7; LEN as usize]);
        }
    }

    fn kernel_sends(&mut self) {
        for _ in 0..MAX_BURST {
            let (sent, bytes) = self.nic.take_sent().expect("as many were sent");
            assert_eq!(bytes, [7; LEN as usize]);
            self.nic.kernel.complete(sent);
        }
    }

    /// Passes a burst there and back.
    fn pass(&mut self) {
        self.kernel_receives();
        assert!(self.receive());
        self.function.work();
        assert!(self.transmit());
        self.kernel_sends();
    }

    /// Forwards a burst from the kernel.
    pub fn receive(&mut self) -> bool {
        self.there.round()
    }

    /// Forwards a burst to the kernel, and takes back the one before.
    pub fn transmit(&mut self) -> bool {
        self.back.round()
    }
}

/// Returns a rig that has a burst to receive.
pub fn about_to_receive(packed: bool, mapped: bool) -> Rig {
    let mut rig = Rig::new(packed, mapped);
    (0..BEFORE).for_each(|_| rig.pass());
    rig.kernel_receives();
    rig
}

/// Returns a rig that has a burst to transmit.
pub fn about_to_transmit(packed: bool, mapped: bool) -> Rig {
    let mut rig = about_to_receive(packed, mapped);
    assert!(rig.receive());
    rig.function.work();
    rig
}
