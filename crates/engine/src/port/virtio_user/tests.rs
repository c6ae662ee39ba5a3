//! Tests of the bytes that a backend finds in the switch's buffers, of the headers that a guest gets, and of the buffers that
//! return to a guest when the backend ends.

mod aside;
mod hold;
mod offloads;

use super::{QueueResources, STRIDE, VirtioReceive, VirtioTransmit};
use crate::port::zero_copy::{GuestBuffers, Mapped, RESERVE, ZeroCopyRx, ZeroCopyTx};
use crate::port::{Sent, SessionFault, TxQueue};
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
    let end = QueueResources { queue, buffers, arena: arena.clone(), broken: Arc::default(), drops: Arc::default() };
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
fn no_byte_of_a_frame_remains_in_the_header_of_the_next() {
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
    let mapped = Mapped::new(false, Some(0));
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
    /// Guest address of its buffers, one after the other.
    buffers: u64,
    arena: Arc<Arena>,
    mapped: Arc<Mapped>,
    fault: Arc<SessionFault>,
}

type Header = [u8; 12];

/// Header of a frame in one buffer.
const VALID: Header = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];

/// Bytes of a buffer.
const BUFFER: u32 = 2048;

/// A device that writes the header, one that leaves num_buffers as it is, and one that writes nothing else.
const WRITES: fn(&mut Header) = |header| *header = VALID;
const LEAVES: fn(&mut Header) = |header| header[..10].fill(0);
const COUNTS: fn(&mut Header) = |header| header[10..].copy_from_slice(&[1, 0]);

impl Mapping {
    fn new() -> Mapping {
        Mapping::sized(8, 0)
    }

    /// Returns a mapping with `size` descriptors and buffers at either end, and `outer` bytes removed before each frame.
    fn sized(size: u16, outer: u32) -> Mapping {
        let mut arena = Arena::new(1 << 20, false).unwrap();
        let [ring, wire] = [(); 2].map(|()| Queue::layout(&mut arena, size, NEGOTIATED).unwrap());
        let buffers = arena.allocate(u64::from(BUFFER) * u64::from(size), 4096).unwrap();
        let own = arena.allocate(u64::from(size) * u64::from(STRIDE), 4096).unwrap();
        let memory = arena.memory().clone();
        let fault = Arc::<SessionFault>::default();
        let mapped = Arc::new(Mapped::new(true, Some(0)));
        mapped.set_reachable(Some(memory.clone()));
        let queue = QueueEnd::create(Queue::new(&arena, &wire).unwrap(), wire).unwrap();
        let device = Enqueue::new(Arc::new(memory.also_by_host()), &wire).unwrap();
        let guest = GuestBuffers::new(Enqueue::new(memory, &ring).unwrap(), fault.clone());
        let posted = Queue::new(&arena, &ring).unwrap();
        let arena = Arc::new(arena);
        let end =
            QueueResources { queue, buffers: own, arena: arena.clone(), broken: Arc::default(), drops: Arc::default() };
        let port = VirtioReceive::new(end, false, Some(mapped.clone()), outer);
        Mapping { port, device, guest, posted, buffers, arena, mapped, fault }
    }

    fn buffer(&self, number: usize) -> u64 {
        self.buffers + number as u64 * u64::from(BUFFER)
    }

    fn header(&self, number: usize) -> Header {
        self.arena.segment(self.buffer(number), NET_HEADER).unwrap().read().unwrap()
    }

    fn set_header(&self, number: usize, header: Header) {
        self.arena.gather(self.buffer(number), std::iter::once(Segment::from(&header[..])));
    }

    /// Passes frames to the guest in its own buffers, whose headers are `before`: one frame for each of `devices`, which
    /// change the headers. Returns the headers that the guest gets.
    fn pass(&mut self, before: Header, devices: &[fn(&mut Header)]) -> Vec<Header> {
        for number in 0..devices.len() {
            self.set_header(number, before);
            let buffer = Buffer { addr: self.buffer(number), len: BUFFER, writable: true };
            self.posted.add(&[buffer]).unwrap();
        }
        self.posted.publish();
        assert!(self.port.relend(&self.guest));
        let mut headers: Vec<_> = (0..devices.len()).map(|number| self.header(number)).collect();
        let bytes = [7; 100];
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        devices.iter().for_each(|_| burst.push(Segment::from(&bytes[..])));
        assert_eq!(self.device.transmit(burst.frames()).unwrap().frames as usize, devices.len());
        for (number, device) in devices.iter().enumerate() {
            device(&mut headers[number]);
            self.set_header(number, headers[number]);
        }
        let mut burst = storage.start();
        assert!(self.port.receive_into(&self.guest, &mut burst));
        assert_eq!(self.guest.ring().transmit(burst.frames()).unwrap().frames as usize, devices.len());
        self.port.relend(&self.guest);
        devices.iter().for_each(|_| assert_eq!(self.posted.pop_used().unwrap().map(|used| used.len), Some(112)));
        (0..devices.len()).map(|number| self.header(number)).collect()
    }

    /// Passes frames by a device that writes headers, one at a time.
    fn pass_valid(&mut self, frames: usize) {
        (0..frames).for_each(|_| assert_eq!(self.pass([0xee; 12], &[WRITES]), [VALID]));
    }
}

#[test]
fn a_device_that_writes_headers_is_trusted_after_a_trial() {
    let mut mapping = Mapping::new();
    mapping.pass_valid(256);
    assert_eq!(
        mapping.pass([0; 12], &[|header| *header = [1; 12]]),
        [[1; 12]],
        "the switch looks at no header any more"
    );
}

#[test]
fn a_device_that_does_not_write_the_whole_header_is_found_out() {
    for before in [[0; 12], [0xee; 12], VALID] {
        for device in [LEAVES, COUNTS] {
            for trusted in [0, 255] {
                let mut mapping = Mapping::new();
                mapping.pass_valid(trusted);
                (0..300).for_each(|round| assert_eq!(mapping.pass(before, &[device]), [VALID], "round {round}"));
                assert_eq!(mapping.pass([0xee; 12], &[device]), [VALID]);
            }
        }
    }
}

/// Loans whose headers the switch made invalid are still out when the trial ends.
#[test]
fn no_guest_gets_a_header_that_the_switch_made_invalid() {
    for device in [LEAVES, COUNTS] {
        let mut mapping = Mapping::new();
        mapping.pass_valid(255);
        assert_eq!(mapping.pass([0; 12], &[WRITES, device, WRITES]), [VALID; 3]);
        assert_eq!(mapping.pass([0xee; 12], &[device]), [VALID], "it is trusted no more");
    }
}

/// A peer may send as many frames at once as the ring has descriptors, if the guest's buffers are never fit to be lent.
#[test]
fn a_queue_that_only_copies_becomes_as_deep_as_its_ring() {
    const SIZE: u16 = 2 * RESERVE;
    let mut mapping = Mapping::sized(SIZE, 0);
    let post = |mapping: &mut Mapping, len| {
        let buffer = Buffer { addr: mapping.buffer(0), len, writable: true };
        mapping.posted.add(&[buffer]).unwrap();
        mapping.posted.publish();
        mapping.port.relend(&mapping.guest);
    };
    let bytes = [7; 100];
    let takes = |mapping: &Mapping| {
        let mut storage = Box::<BurstStorage>::default();
        let taken = (0..SIZE).take_while(|_| {
            let mut burst = storage.start();
            burst.push(Segment::from(&bytes[..]));
            mapping.device.transmit(burst.frames()).unwrap().frames == 1
        });
        taken.count() as u16
    };
    let receive = |mapping: &Mapping| {
        let mut storage = Box::<BurstStorage>::default();
        while mapping.port.receive_into(&mapping.guest, &mut storage.start()) {
            mapping.port.relend(&mapping.guest);
        }
    };
    post(&mut mapping, 1024);
    for depth in [RESERVE, SIZE, SIZE] {
        assert_eq!(takes(&mapping), depth);
        receive(&mapping);
    }
    assert!(mapping.mapped.why_none().is_some_and(|why| why.contains("1024 bytes")));
}
