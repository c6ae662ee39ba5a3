//! A network function, which stands still while the switch works.

use std::sync::Arc;
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::Arena;
use virtqueue::{NET_HEADER, QueueConfig};

/// Descriptors of each ring, and buffers of the function.
pub const SIZE: u16 = 256;

/// Bytes of a buffer.
const ROOM: u32 = 2048;

/// Bytes of a frame.
pub const LEN: u32 = 64;

/// A function that sends every frame back in the buffer in which it came.
pub struct Function {
    posted: Queue,
    sent: Queue,
    /// Guest address of the buffer of each chain, by id.
    in_posted: [u64; SIZE as usize],
    in_sent: [u64; SIZE as usize],
}

impl Function {
    /// Bytes of all buffers.
    pub const BUFFERS: u64 = SIZE as u64 * ROOM as u64;

    /// Returns the driver of these rings, with its `buffers` posted.
    pub fn new(arena: &Arc<Arena>, [posted, sent]: [&QueueConfig; 2], buffers: u64) -> Function {
        let driver = |ring: &QueueConfig| Queue::new(arena, ring).expect("it is valid");
        let (in_posted, in_sent) = ([0; SIZE as usize], [0; SIZE as usize]);
        let mut function = Function { posted: driver(posted), sent: driver(sent), in_posted, in_sent };
        (0..SIZE).for_each(|i| function.post(buffers + u64::from(i) * u64::from(ROOM)));
        function.posted.publish();
        function
    }

    fn post(&mut self, addr: u64) {
        let id = self.posted.add(&[Buffer { addr, len: ROOM, writable: true }]).expect("each buffer is posted once");
        self.in_posted[usize::from(id)] = addr;
    }

    /// Sends the frames that it got, and posts the buffers of the frames that were sent.
    pub fn work(&mut self) {
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
}
