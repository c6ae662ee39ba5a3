//! A guest that writes its rings by hand, so that their contents need not be valid.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::virtio::Guest;
use crate::{Home, wait_for};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use virtqueue::features;
use virtqueue::memory::{Memory, Region};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// Flag of a descriptor: another one follows (virtio 1.2 §2.7.5).
pub const F_NEXT: u16 = 1;
/// Flag of a descriptor: the device writes to the buffer.
pub const F_WRITE: u16 = 2;

/// Queue numbers in vhost-user.
pub const RX: usize = 0;
/// Queue number of the transmit queue.
pub const TX: usize = 1;

/// Size of each queue.
pub const SIZE: u16 = 256;
/// Length of the header before a frame.
pub const HEADER: u32 = 12;

/// The guest's memory: two rings in the first pages, then buffers.
pub const START: u64 = 0x10_0000;
/// Bytes of the memory.
pub const LENGTH: u64 = 0x20_0000;
/// First address after the rings.
pub const BUFFERS: u64 = START + 0x1_0000;

/// Addresses of a queue's areas.
pub fn descriptors(queue: usize) -> u64 {
    START + queue as u64 * 0x4000
}

/// Address of a queue's available ring.
pub fn available(queue: usize) -> u64 {
    descriptors(queue) + 0x1000
}

/// Address of a queue's used ring.
pub fn used(queue: usize) -> u64 {
    descriptors(queue) + 0x2000
}

/// A guest with split rings that it writes by hand, in memory that it may shrink.
pub struct Rogue {
    /// Its session.
    pub frontend: Frontend,
    memory: Memory,
    /// The file that its memory is in.
    pub file: Arc<OwnedFd>,
    /// Next available index of each queue.
    pub next: [u16; 2],
    /// Whether the transmit buffers hold good frames.
    filled: bool,
    events: Vec<EventFd>,
}

impl Rogue {
    /// Connects at port `a`.
    pub fn connect(home: &Home) -> Rogue {
        let stream = UnixStream::connect(home.socket("a")).unwrap();
        let mut frontend = Frontend::from_stream(stream, 2);
        let file = Arc::new(memfd_create("rogue", MemfdFlags::CLOEXEC).unwrap());
        ftruncate(&*file, LENGTH).unwrap();
        let memory = map(&file);
        frontend.set_owner().unwrap();
        let wanted = features::VERSION_1 | features::MRG_RXBUF | features::PROTOCOL_FEATURES;
        assert_eq!(frontend.get_features().unwrap() & wanted, wanted);
        frontend.set_features(wanted).unwrap();
        frontend.get_protocol_features().unwrap();
        let table = VhostUserMemoryRegionInfo {
            guest_phys_addr: START,
            memory_size: LENGTH,
            userspace_addr: START,
            mmap_offset: 0,
            mmap_handle: file.as_raw_fd(),
        };
        frontend.set_mem_table(&[table]).unwrap();
        let mut events = Vec::new();
        for queue in [RX, TX] {
            let (kick, call) = (EventFd::new(EFD_NONBLOCK).unwrap(), EventFd::new(EFD_NONBLOCK).unwrap());
            let rings = VringConfigData {
                queue_max_size: SIZE,
                queue_size: SIZE,
                flags: 0,
                desc_table_addr: descriptors(queue),
                used_ring_addr: used(queue),
                avail_ring_addr: available(queue),
                log_addr: None,
            };
            frontend.set_vring_call(queue, &call).unwrap();
            frontend.set_vring_num(queue, SIZE).unwrap();
            frontend.set_vring_base(queue, 0).unwrap();
            frontend.set_vring_addr(queue, &rings).unwrap();
            frontend.set_vring_kick(queue, &kick).unwrap();
            frontend.set_vring_enable(queue, true).unwrap();
            events.extend([kick, call]);
        }
        Rogue { frontend, memory, file, next: [0; 2], filled: false, events }
    }

    /// Returns kick and call of each queue, which the switch has too.
    pub fn events(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        // SAFETY: they are open as long as the guest is borrowed.
        self.events.iter().map(|event| unsafe { BorrowedFd::borrow_raw(event.as_raw_fd()) })
    }

    /// Writes bytes at a guest address.
    pub fn write(&self, addr: u64, bytes: &[u8]) {
        write(&self.memory, addr, bytes);
    }

    /// Returns another way to its memory, for a thread that changes frames while they are on their way.
    pub fn scribbler(&self) -> Scribbler {
        Scribbler(map(&self.file))
    }

    /// Writes a number at a guest address.
    pub fn write_u16(&self, addr: u64, value: u16) {
        let to = self.memory.translate(addr, 2).expect("an address of the guest").as_ptr().cast::<u16>();
        // SAFETY: mapped, and all addresses here are even. Volatile, so that it is written immediately.
        unsafe { to.write_volatile(value) };
    }

    /// Returns the used index, up to which Millrace has returned chains.
    pub fn used_index(&self, queue: usize) -> u16 {
        let from = self.memory.translate(used(queue) + 2, 2).expect("an address of the guest").as_ptr().cast::<u16>();
        // SAFETY: as above.
        unsafe { from.read_volatile() }
    }

    /// Returns the id that Millrace or the rogue wrote last to this element of the used ring.
    pub fn used_id(&self, queue: usize, at: u16) -> u32 {
        let addr = used(queue) + 4 + u64::from(at) * 8;
        let from = self.memory.translate(addr, 4).expect("an address of the guest").as_ptr().cast::<u32>();
        // SAFETY: mapped, and a multiple of four. Volatile, so that it is read each time.
        unsafe { from.read_volatile() }
    }

    /// Overwrites the id of a used entry.
    pub fn set_used_id(&self, queue: usize, at: u16, id: u32) {
        self.write(used(queue) + 4 + u64::from(at) * 8, &id.to_le_bytes());
    }

    /// Reports whether it is still connected.
    pub fn is_connected(&self) -> bool {
        self.frontend.get_features().is_ok()
    }

    /// Writes a descriptor.
    pub fn describe(&self, queue: usize, slot: u16, addr: u64, len: u32, flags: u16, next: u16) {
        let at = descriptors(queue) + u64::from(slot) * 16;
        self.write(at, &addr.to_le_bytes());
        self.write(at + 8, &len.to_le_bytes());
        self.write(at + 12, &[flags.to_le_bytes(), next.to_le_bytes()].concat());
    }

    /// Makes the chain that starts with `head` available, before [`Rogue::publish`].
    pub fn offer(&mut self, queue: usize, head: u16) {
        let next = self.next[queue];
        self.write_u16(available(queue) + 4 + u64::from(next % SIZE) * 2, head);
        self.next[queue] = next.wrapping_add(1);
    }

    /// Publishes `index` as the available index, whether or not it is valid.
    pub fn publish(&mut self, queue: usize, index: u16) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        self.next[queue] = index;
        self.write_u16(available(queue) + 2, index);
    }

    /// Offers chains and waits until they come back.
    pub fn offer_all(&mut self, queue: usize, heads: &[u16]) {
        heads.iter().for_each(|&head| self.offer(queue, head));
        let goal = self.next[queue];
        self.publish(queue, goal);
        wait_for("the chains to come back", || (self.used_index(queue) == goal).then_some(()));
    }

    /// Puts frames like `frame` into all transmit buffers: at the addresses of [`buffer`].
    pub fn fill(&mut self, frame: &[u8]) {
        for slot in 0..SIZE {
            self.write(buffer(slot) - u64::from(HEADER), &[0; HEADER as usize]);
            self.write(buffer(slot), frame);
            self.describe(TX, slot, buffer(slot) - u64::from(HEADER), HEADER + frame.len() as u32, 0, 0);
        }
        self.filled = true;
    }

    /// Fills the transmit queue up.
    pub fn send_all(&mut self) {
        while self.next[TX].wrapping_sub(self.used_index(TX)) < SIZE {
            self.offer(TX, self.next[TX] % SIZE);
        }
        self.publish(TX, self.next[TX]);
    }

    /// Keeps the transmit queue full of good frames for `time`; `b` takes them. Only the first call touches buffers.
    pub fn blast(&mut self, b: &mut Guest, time: Duration) {
        if !self.filled {
            self.fill(&[0; 1500]);
        }
        let began = Instant::now();
        while began.elapsed() < time {
            self.send_all();
            b.receive(64, |_| Ok(())).unwrap();
        }
    }
}

/// Returns the address of the frame in a transmit buffer.
pub fn buffer(slot: u16) -> u64 {
    BUFFERS + u64::from(slot) * 2048 + u64::from(HEADER)
}

/// Another way to a rogue's memory.
pub struct Scribbler(Memory);

impl Scribbler {
    /// Writes bytes at a guest address.
    pub fn write(&self, addr: u64, bytes: &[u8]) {
        write(&self.0, addr, bytes);
    }
}

fn map(file: &Arc<OwnedFd>) -> Memory {
    let region = Region { guest_addr: START, user_addr: START, len: LENGTH, offset: 0, file: file.clone() };
    Memory::map(vec![region]).unwrap()
}

fn write(memory: &Memory, addr: u64, bytes: &[u8]) {
    let to = memory.translate(addr, bytes.len() as u64).expect("an address of the guest");
    // SAFETY: as many bytes are mapped there; others may read and write them meanwhile, and may get any mix of old and new bytes.
    unsafe { to.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
}
