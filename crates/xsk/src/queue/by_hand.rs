//! A queue without an interface, for measurements and tests of its user: the caller does the kernel's part by hand.

use super::{Bound, Completion, Fill, Queue, Rx, Socket, Tx};
use crate::Umem;
use crate::ring::{Consumer, Descriptor, FakeRing, Producer};
use std::convert::identity;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

/// The kernel's part of a queue.
#[derive(Debug)]
pub struct Kernel {
    fill: Consumer<u64>,
    rx: Producer<Descriptor>,
    tx: Consumer<Descriptor>,
    completion: Producer<u64>,
    umem: Arc<Umem>,
}

/// Returns both sides of a ring, whose memory is never freed.
fn ring<T: Copy + Default>(size: u32) -> (Producer<T>, Consumer<T>) {
    let ring = Box::leak(Box::new(FakeRing::new(size, 0)));
    (Producer::new(ring.side()), Consumer::new(ring.side()))
}

impl Queue {
    /// Returns a queue over `umem`, with rings of `size` entries, a power of two, and the kernel's part of it.
    pub fn by_hand(umem: &Arc<Umem>, size: u32, zero_copy: bool) -> io::Result<(Queue, Kernel)> {
        let bound = Bound {
            interface: "by hand".into(),
            index: 0,
            queue: 0,
            zero_copy,
            need_wakeup: true,
            multi_buffer: false,
            tx_budget: size,
        };
        // Nobody wakes this kernel: it never asks for that.
        let fd = UnixDatagram::unbound()?.into();
        let socket = Arc::new(Socket { fd, bound, umem: umem.clone() });
        let ((filling, fill), (receive, receiving), (sending, tx), (complete, completing)) =
            (ring(size), ring(size), ring(size), ring(size));
        let queue = Queue {
            fill: Fill { ring: filling, socket: socket.clone() },
            rx: Rx { ring: receiving, socket: socket.clone() },
            tx: Tx { ring: sending, socket: socket.clone() },
            completion: Completion { ring: completing, socket },
        };
        Ok((queue, Kernel { fill, rx: receive, tx, completion: complete, umem: umem.clone() }))
    }
}

impl Kernel {
    /// Takes the chunk that was filled first, if there is one.
    pub fn take_filled(&mut self) -> Option<u64> {
        self.fill.burst(1).next()
    }

    /// Returns the address of the first byte of a frame in a filled chunk.
    pub fn frame_address(&self, filled: u64) -> u64 {
        self.umem.frame_address(self.received(filled))
    }

    /// Returns a chunk with a frame, or with a `part` of one that goes on in the next chunk (`xp_get_handle`).
    pub fn receive(&mut self, filled: u64, len: u32, part: bool) {
        let frame = Descriptor::new(self.received(filled), len);
        let pushed = self.rx.push([if part { frame.continued() } else { frame }], 1, identity);
        assert_eq!(pushed, 1, "the ring has room for every chunk");
    }

    fn received(&self, filled: u64) -> u64 {
        let chunks = self.umem.chunks();
        let offset = u64::from(chunks.frame_offset());
        if chunks.unaligned { filled | offset << 48 } else { filled + offset }
    }

    /// Takes the frame that was pushed first, if there is one: its descriptor, and the address of its first byte.
    pub fn take_sent(&mut self) -> Option<(Descriptor, u64)> {
        let sent = self.tx.burst(1).next()?;
        Some((sent, self.umem.frame_address(sent.address)))
    }

    /// Returns a frame that was sent.
    pub fn complete(&mut self, sent: Descriptor) {
        let pushed = self.completion.push([sent.address], 1, identity);
        assert_eq!(pushed, 1, "the ring has room for every frame");
    }
}
