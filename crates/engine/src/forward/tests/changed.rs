//! Guests that change frames after they were judged: all outputs send the judged bytes.

use super::{Delivered, Rig};
use crate::forward::{BridgePlan, Half, Output, TransmitQueue};
use crate::port::{Sent, TxQueue};
use crate::spec::Vlan;
use crate::stage::egress::Egress;
use packet::{Frames, MIN_FRAME, Segment};
use std::sync::{Arc, Mutex};
use virtqueue::memory::Arena;

/// Memory of a guest, with one frame in it.
pub(in crate::forward) struct Guest {
    arena: Arena,
    addr: u64,
    len: u32,
}

impl Guest {
    pub(in crate::forward) fn new(frame: &[u8]) -> Arc<Guest> {
        let mut arena = Arena::new(1 << 16, false).unwrap();
        let addr = arena.allocate(frame.len() as u64, 64).unwrap();
        arena.gather(addr, [Segment::from(frame)].into_iter()).unwrap();
        Arc::new(Guest { arena, addr, len: frame.len() as u32 })
    }

    /// Returns the frame as it lies there.
    pub(in crate::forward) fn frame(&self) -> Segment<'_> {
        self.arena.segment(self.addr, self.len).unwrap()
    }

    fn change(&self) {
        let mut bytes = vec![0; self.len as usize];
        self.frame().copy_to(&mut bytes);
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
        self.arena.gather(self.addr, [Segment::from(&bytes[..])].into_iter()).unwrap();
    }
}

/// A queue that is so slow that the guest changes all frames before it reads them.
struct Slow(Arc<Guest>, Delivered);

impl TxQueue for Slow {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        self.0.change();
        for frame in frames.as_slice() {
            let mut bytes = vec![0; frame.len() as usize];
            frames.copy_to(frame, &mut bytes);
            self.1.lock().unwrap().push(bytes);
        }
        Sent { frames: frames.len() as u32, ..Sent::default() }
    }
}

/// Returns `count` outputs with such queues, and the frames given to each.
pub(in crate::forward) fn slow(count: usize, guest: &Arc<Guest>) -> (Vec<Output>, Vec<Delivered>) {
    let delivered: Vec<Delivered> = (0..count).map(|_| Arc::new(Mutex::default())).collect();
    let output = |(port, delivered): (usize, &Delivered)| {
        let half = Half::Own(Egress::new(Box::new(Slow(guest.clone(), delivered.clone()))));
        Output::new(port as u64, vec![TransmitQueue { half, counters: Arc::default() }], Arc::default())
    };
    (delivered.iter().enumerate().map(output).collect(), delivered)
}

/// Sends the guest's frame into port 0 of a bridge; returns the frames that left each port.
fn sent(vlans: &[Vlan], guest: &Arc<Guest>) -> Vec<Vec<Vec<u8>>> {
    let mut rig = Rig::new(vlans);
    (rig.outputs, rig.delivered) = slow(vlans.len(), guest);
    rig.forward_segments(0, [[guest.frame()]], BridgePlan::forward)
}

/// A frame to all, with this tag.
fn frame(tag: &[u8]) -> Vec<u8> {
    [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], tag, &[8, 0], &[5; 186]].concat()
}

#[test]
fn all_ports_of_a_bridge_get_the_header_that_was_judged() {
    let before = frame(&[]);
    for out in &sent(&[const { Vlan::Ignore }; 4], &Guest::new(&before))[1..] {
        assert_eq!(out[0][..MIN_FRAME as usize], before[..MIN_FRAME as usize]);
    }
}

#[test]
fn all_ports_of_a_vlan_get_the_tag_that_was_judged() {
    let before = frame(&[0x81, 0, 0, 10]);
    let trunk = || Vlan::Trunk(vec![10]);
    let out = sent(&[trunk(), trunk(), Vlan::Access(10), Vlan::Trunk(vec![20])], &Guest::new(&before));
    assert_eq!(out[1][0][..18], before[..18]);
    assert_eq!(out[2][0][..14], frame(&[])[..14]);
    assert!(out[3].is_empty());
}
