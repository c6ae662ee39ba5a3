//! Tests of what a backend finds in the switch's buffers, of the headers that a guest gets, and of what returns to a guest
//! when the backend ends.

use super::{QueueResources, STRIDE, VirtioReceive, VirtioTransmit};
use crate::port::zero_copy::{GuestBuffers, Mapped, ZeroCopyRx, ZeroCopyTx};
use crate::port::{Sent, TxQueue};
use packet::{BurstStorage, Segment};
use std::sync::Arc;
use vhost_user::frontend::QueueEnd;
use virtqueue::device::{Dequeue, Enqueue};
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::Arena;
use virtqueue::{NET_HEADER, Negotiated, QueueConfig, features};

const NEGOTIATED: Negotiated = Negotiated(features::VERSION_1);

/// Returns a port with `size` buffers, of which the device has none.
fn port(mut arena: Arena, size: u16, mapped: Option<Arc<Mapped>>) -> (VirtioTransmit, Dequeue, u64, Arc<Arena>) {
    let ring = Queue::layout(&mut arena, size, NEGOTIATED).unwrap();
    let buffers = arena.allocate(u64::from(size) * u64::from(STRIDE), 4096).unwrap();
    let queue = Queue::new(&arena, &ring).unwrap();
    // Kept chains are addressed by their place in this process.
    let device = Dequeue::new(Arc::new(arena.memory().also_by_host()), &ring).unwrap();
    let arena = Arc::new(arena);
    let queue = QueueEnd::create(queue, ring).unwrap();
    let end = QueueResources { queue, buffers, arena: arena.clone(), broken: Arc::default() };
    (VirtioTransmit::new(end, mapped), device, buffers, arena)
}

/// Makes the device take and return all chains.
fn take(device: &Dequeue) -> Vec<Vec<u8>> {
    let mut storage = Box::<BurstStorage>::default();
    let mut taken = Vec::new();
    while device.has_work() {
        let mut burst = storage.start();
        device.receive(&mut burst).unwrap();
        let frames = burst.frames();
        taken.extend(frames.as_slice().iter().map(|frame| {
            let mut bytes = vec![0; frame.len() as usize];
            frames.copy_to(frame, &mut bytes);
            bytes
        }));
        device.recycle();
    }
    taken
}

/// Frames of all lengths, in one piece and in two, go through all buffers in turn. Each arrives unchanged, and leaves
/// no byte where the next one has its virtio header.
#[test]
fn no_byte_of_a_frame_is_left_where_the_next_has_its_header() {
    const SIZE: u16 = 16;
    let (port, device, buffers, arena) = port(Arena::new(1 << 20, false).unwrap(), SIZE, None);
    let lengths = [60, 2035, 2036, 2037, 2048, 4072, 4073, 5000, 9000, 8 * 2036];
    for (round, len) in lengths.into_iter().cycle().take(60).enumerate() {
        let bytes: Vec<u8> = (0..len).map(|i| (i + round) as u8 | 0x80).collect();
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        let (a, b) = Segment::from(&bytes[..]).split_at(if round % 3 == 0 { 40 } else { 0 });
        assert!(burst.push_segments([a, b].into_iter().filter(|part| !part.is_empty())));
        assert_eq!(port.transmit(burst.frames()).frames, 1, "{len} bytes");
        assert!(take(&device) == [bytes], "{len} bytes");
        for index in 0..SIZE {
            let at = buffers + u64::from(index) * u64::from(STRIDE) + u64::from(super::LEAD);
            let header = arena.segment(at, NET_HEADER).unwrap().read::<12>();
            assert_eq!(header, Some([0; 12]), "buffer {index} after a frame of {len} bytes");
        }
    }
    let mut storage = Box::<BurstStorage>::default();
    let bytes = vec![0; 8 * 2036 + 1];
    let mut burst = storage.start();
    burst.push(Segment::from(&bytes[..]));
    assert!(matches!(port.transmit(burst.frames()), Sent { frames: 0, too_long: 1, .. }));
}

/// A guest whose frames are sent without a copy.
struct Guest {
    queue: Queue,
    dequeue: Dequeue,
    buffers: u64,
    size: u16,
}

impl Guest {
    fn new(arena: &mut Arena, size: u16) -> Guest {
        let ring: QueueConfig = Queue::layout(arena, size, NEGOTIATED).unwrap();
        let buffers = arena.allocate(u64::from(size) * 2048, 4096).unwrap();
        let queue = Queue::new(arena, &ring).unwrap();
        let mut dequeue = Dequeue::new(arena.memory().clone(), &ring).unwrap();
        dequeue.allow_keeping();
        Guest { queue, dequeue, buffers, size }
    }

    /// Sends `count` frames by the port, and takes back chains that are done.
    fn send(&mut self, count: u16, port: &VirtioTransmit) {
        for i in 0..count {
            let addr = self.buffers + u64::from(i % self.size) * 2048;
            self.queue.add(&[Buffer { addr, len: 1000 + NET_HEADER, writable: false }]).expect("all came back");
        }
        self.queue.publish();
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        port.returned(&mut |ids| self.dequeue.release(ids.iter().copied()));
        assert_eq!(self.dequeue.receive(&mut burst), Ok(count.into()));
        assert_eq!(port.transmit(burst.frames()).frames, u32::from(count));
        assert_eq!(burst.kept().count_ones(), u32::from(count), "all are sent from where they lie");
        self.dequeue.keep(burst.kept());
        self.dequeue.recycle();
    }

    fn reclaim(&mut self) -> u16 {
        let mut count = 0;
        while self.queue.pop_used().unwrap().is_some() {
            count += 1;
        }
        count
    }
}

/// The backend's ring is longer than the guest's, so it has had each chain of the guest several times when it ends.
#[test]
fn every_chain_comes_back_when_the_backend_goes() {
    const SIZE: u16 = 8;
    let mut arena = Arena::new(1 << 20, false).unwrap();
    let mut guest = Guest::new(&mut arena, SIZE);
    let mapped = Mapped::new(false, 0);
    mapped.set_in_place_from(guest.dequeue.id());
    let (port, device, ..) = port(arena, 64, Some(Arc::new(mapped)));
    for _ in 0..40 {
        guest.send(1, &port);
        assert_eq!(take(&device).len(), 1);
        port.returned(&mut |ids| guest.dequeue.release(ids.iter().copied()));
        guest.dequeue.recycle();
        assert_eq!(guest.reclaim(), 1);
    }
    guest.send(SIZE, &port);
    let mut released: Vec<u16> = Vec::new();
    port.recall(&mut |ids| {
        released.extend(ids);
        guest.dequeue.release(ids.iter().copied());
    });
    released.sort_unstable();
    assert_eq!(released, (0..SIZE).collect::<Vec<_>>(), "each once");
    guest.dequeue.recycle();
    assert_eq!((guest.reclaim(), guest.dequeue.kept(), port.keeps()), (SIZE, 0, false));
}

/// A port that receives into a guest's buffers, and the guest.
struct Mapping {
    port: VirtioReceive,
    device: Enqueue,
    guest: GuestBuffers,
    posted: Queue,
    /// Guest address of its one buffer.
    buffer: u64,
    arena: Arc<Arena>,
}

/// Virtio header of a frame in one buffer.
const VALID: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];

impl Mapping {
    fn new() -> Mapping {
        const SIZE: u16 = 8;
        let mut arena = Arena::new(1 << 20, false).unwrap();
        let [ring, wire] = [(); 2].map(|()| Queue::layout(&mut arena, SIZE, NEGOTIATED).unwrap());
        let buffer = arena.allocate(2048, 4096).unwrap();
        let buffers = arena.allocate(u64::from(SIZE) * u64::from(STRIDE), 4096).unwrap();
        let memory = arena.memory().clone();
        let mapped = Arc::new(Mapped::new(true, 0));
        mapped.set_reachable(true);
        let queue = QueueEnd::create(Queue::new(&arena, &wire).unwrap(), wire).unwrap();
        let device = Enqueue::new(Arc::new(memory.also_by_host()), &wire).unwrap();
        let guest = GuestBuffers::new(Enqueue::new(memory, &ring).unwrap(), Arc::default());
        let posted = Queue::new(&arena, &ring).unwrap();
        let arena = Arc::new(arena);
        let end = QueueResources { queue, buffers, arena: arena.clone(), broken: Arc::default() };
        Mapping { port: VirtioReceive::new(end, false, Some(mapped), 0), device, guest, posted, buffer, arena }
    }

    fn header(&self) -> [u8; 12] {
        self.arena.segment(self.buffer, NET_HEADER).unwrap().read().unwrap()
    }

    /// Passes a frame to the guest in its own buffer; `device` changes the header that the device wrote. Returns the
    /// header that the guest gets.
    fn pass(&mut self, device: impl Fn(&mut [u8; 12])) -> [u8; 12] {
        // A guest may have used the buffer for anything.
        self.arena.gather(self.buffer, std::iter::once(Segment::from(&[0xee; 12][..])));
        self.posted.add(&[Buffer { addr: self.buffer, len: 2048, writable: true }]).unwrap();
        self.posted.publish();
        assert!(self.port.relend(&self.guest));
        let before = self.header();
        let bytes = [7; 100];
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        burst.push(Segment::from(&bytes[..]));
        assert_eq!(self.device.transmit(burst.frames()).unwrap().frames, 1);
        let mut header = before;
        device(&mut header);
        self.arena.gather(self.buffer, std::iter::once(Segment::from(&header[..])));
        let mut burst = storage.start();
        assert!(self.port.receive_into(&self.guest, &mut burst));
        assert_eq!(self.guest.ring().transmit(burst.frames()).unwrap().frames, 1);
        self.port.relend(&self.guest);
        assert_eq!(self.posted.pop_used().unwrap().map(|used| used.len), Some(112));
        self.header()
    }
}

#[test]
fn a_device_that_writes_headers_is_trusted_after_a_trial() {
    let mut mapping = Mapping::new();
    for _ in 0..256 {
        assert_eq!(mapping.pass(|header| *header = VALID), VALID);
    }
    let odd = [1; 12];
    assert_eq!(mapping.pass(|header| *header = odd), odd, "the switch looks at no header any more");
}

#[test]
fn a_device_that_leaves_num_buffers_alone_is_found_out() {
    let mut mapping = Mapping::new();
    for _ in 0..600 {
        assert_eq!(mapping.pass(|header| header[..10].fill(0)), VALID);
    }
    let mut mapping = Mapping::new();
    for round in 0..600 {
        let writes = round < 255;
        let got = mapping.pass(|header| if writes { *header = VALID } else { header[..10].fill(0) });
        assert_eq!(got, VALID, "round {round}");
    }
}
