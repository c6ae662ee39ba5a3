//! A guest with buffers at chosen addresses, in memory that comes and goes while its queues run.

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{pread, pwrite};
use rustix::net::SendFlags;
use vhost::vhost_user::message::{FrontendReq, VhostUserHeaderFlag};
use vhost::vhost_user::{Frontend, VhostUserFrontend, VhostUserProtocolFeatures as ProtocolFeatures};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::{Arena, Region};
use virtqueue::ordering::before_asking;
use virtqueue::{NET_HEADER, Negotiated, QueueConfig, features};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// Size of each queue.
pub const SIZE: u16 = 128;

/// Queue numbers in vhost-user.
const RX: usize = 0;
const TX: usize = 1;

const PAGE: u64 = 4096;

/// A region of the guest's memory, between two pages of its file that the guest does not share.
pub struct Ram(Region);

impl Ram {
    /// Creates a region of `len` bytes (whole pages) at this guest address.
    pub fn new(guest_addr: u64, len: u64) -> Ram {
        let file = Arc::new(memfd_create("crafted", MemfdFlags::CLOEXEC).unwrap());
        ftruncate(&*file, len + 2 * PAGE).unwrap();
        Ram(Region { guest_addr, user_addr: guest_addr, len, offset: PAGE, file })
    }

    /// Returns the first guest address.
    pub fn start(&self) -> u64 {
        self.0.guest_addr
    }

    /// Returns its size in bytes.
    pub fn size(&self) -> u64 {
        self.0.len
    }

    /// Reports whether an address lies in it.
    pub fn has(&self, addr: u64) -> bool {
        (self.start()..self.start() + self.size()).contains(&addr)
    }

    /// Returns the contents of its file, including the pages around the region.
    pub fn snapshot(&self) -> Vec<u8> {
        file_of(&self.0)
    }

    /// Returns the offset of a guest address in a snapshot.
    pub fn place(&self, addr: u64) -> usize {
        (addr - self.start() + PAGE) as usize
    }

    /// Writes bytes at a guest address.
    pub fn write(&self, addr: u64, bytes: &[u8]) {
        assert_eq!(pwrite(&*self.0.file, bytes, self.place(addr) as u64).unwrap(), bytes.len());
    }

    /// Reads bytes at a guest address.
    pub fn read(&self, addr: u64, len: u32) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        assert_eq!(pread(&*self.0.file, &mut bytes, self.place(addr) as u64).unwrap(), bytes.len());
        bytes
    }
}

fn file_of(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; rustix::fs::fstat(&*region.file).unwrap().st_size as usize];
    assert_eq!(pread(&*region.file, &mut bytes, 0).unwrap(), bytes.len());
    bytes
}

/// A buffer that came back.
#[derive(Clone, Copy, Debug)]
pub struct Back {
    /// Its guest address.
    pub addr: u64,
    /// Length of the posted buffer.
    pub room: u32,
    /// Bytes written, as reported by the switch.
    pub len: u32,
}

/// The message by which a frontend resets the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// None: stopped queues are enough.
    None,
    /// RESET_OWNER.
    Owner,
    /// RESET_DEVICE.
    Device,
}

/// The guest. Its rings are in separate memory, which is never removed.
pub struct Crafted {
    frontend: Frontend,
    /// The frontend's connection.
    stream: UnixStream,
    /// Features that it accepts.
    wanted: u64,
    rings: Arena,
    configs: [QueueConfig; 2],
    queues: [Queue; 2],
    kicks: [EventFd; 2],
    calls: [EventFd; 2],
    /// Receive buffers that the switch has, by chain id.
    posted: HashMap<u16, (u64, u32)>,
    /// Number of chains being sent.
    sending: usize,
}

impl Crafted {
    /// Connects, with this memory for its buffers.
    pub fn connect(socket: &Path, packed: bool, ram: &[&Ram]) -> Crafted {
        let stream = UnixStream::connect(socket).unwrap();
        let mut frontend = Frontend::from_stream(stream.try_clone().unwrap(), 2);
        frontend.set_owner().unwrap();
        let format = if packed { features::RING_PACKED } else { 0 };
        let wanted = features::VERSION_1 | features::MRG_RXBUF | features::PROTOCOL_FEATURES | format;
        assert_eq!(frontend.get_features().unwrap() & wanted, wanted);
        let protocol =
            ProtocolFeatures::REPLY_ACK | ProtocolFeatures::CONFIGURE_MEM_SLOTS | ProtocolFeatures::RESET_DEVICE;
        assert!(frontend.get_protocol_features().unwrap().contains(protocol));
        frontend.set_protocol_features(protocol).unwrap();
        // A change is complete when the call returns.
        frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        frontend.set_features(wanted).unwrap();
        assert!(frontend.get_max_mem_slots().unwrap() >= 8);
        let mut rings = Arena::new(1 << 16, false).unwrap();
        let configs = [RX, TX].map(|_| Queue::layout(&mut rings, SIZE, Negotiated(wanted)).expect("there is room"));
        let queues = configs.each_ref().map(|config| Queue::new(&rings, config).unwrap());
        let event = |_| EventFd::new(EFD_NONBLOCK).unwrap();
        let [kicks, calls] = [[RX, TX].map(event), [RX, TX].map(event)];
        let posted = HashMap::new();
        let guest = Crafted { frontend, stream, wanted, rings, configs, queues, kicks, calls, posted, sending: 0 };
        guest.share(ram);
        guest.start_all();
        guest
    }

    /// Does in the same connection what QEMU does when its machine boots again: stops the queues, resets the device if there is a
    /// message for that, and starts with empty rings, in this memory.
    pub fn reboot(&mut self, reset: Reset, ram: &[&Ram]) {
        for queue in [RX, TX] {
            self.frontend.get_vring_base(queue).unwrap();
        }
        match reset {
            Reset::None => {}
            Reset::Owner => {
                self.frontend.reset_owner().unwrap();
                self.frontend.set_owner().unwrap();
            }
            Reset::Device => self.frontend.reset_device().unwrap(),
        }
        self.frontend.set_features(self.wanted).unwrap();
        self.queues = self.configs.each_ref().map(|config| Queue::new(&self.rings, config).unwrap());
        (self.posted, self.sending) = (HashMap::new(), 0);
        self.share(ram);
        self.start_all();
    }

    fn start_all(&self) {
        for queue in [RX, TX] {
            self.start(queue);
        }
    }

    fn start(&self, queue: usize) {
        let (config, frontend) = (&self.configs[queue], &self.frontend);
        let rings = VringConfigData {
            queue_max_size: SIZE,
            queue_size: SIZE,
            flags: 0,
            // The arena's user addresses are its guest addresses.
            desc_table_addr: config.descriptors,
            used_ring_addr: config.device,
            avail_ring_addr: config.driver,
            log_addr: None,
        };
        frontend.set_vring_call(queue, &self.calls[queue]).unwrap();
        frontend.set_vring_num(queue, SIZE).unwrap();
        // The library's SET_VRING_BASE has 16 bits, but a packed ring's base has 32.
        let base = [FrontendReq::SET_VRING_BASE.into(), 1, 8, queue as u32, config.base];
        let base: Vec<u8> = base.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(rustix::net::send(&self.stream, &base, SendFlags::NOSIGNAL).unwrap(), base.len());
        frontend.set_vring_addr(queue, &rings).unwrap();
        frontend.set_vring_kick(queue, &self.kicks[queue]).unwrap();
        frontend.clone().set_vring_enable(queue, true).unwrap();
    }

    /// Sends SET_MEM_TABLE: replaces the shared memory with the rings and this memory.
    pub fn share(&self, ram: &[&Ram]) {
        let regions: Vec<_> =
            self.rings.memory().regions().iter().chain(ram.iter().map(|ram| &ram.0)).map(info).collect();
        self.frontend.set_mem_table(&regions).unwrap();
    }

    /// Sends ADD_MEM_REG.
    pub fn plug(&mut self, ram: &Ram) {
        self.frontend.add_mem_region(&info(&ram.0)).unwrap();
    }

    /// Sends REM_MEM_REG.
    pub fn unplug(&mut self, ram: &Ram) {
        self.frontend.remove_mem_region(&info(&ram.0)).unwrap();
    }

    /// Adds a receive buffer, which [`Crafted::publish`] makes visible to the switch; returns false if the ring is full.
    pub fn post(&mut self, addr: u64, len: u32) -> bool {
        let id = self.queues[RX].add(&[Buffer { addr, len, writable: true }]);
        id.is_some_and(|id| self.posted.insert(id, (addr, len)).is_none())
    }

    /// Returns the receive buffers that the switch has, as (address, length).
    pub fn posted(&self) -> impl Iterator<Item = (u64, u32)> {
        self.posted.values().copied()
    }

    /// Publishes the chains added to either queue.
    pub fn publish(&mut self) {
        for (queue, kick) in self.queues.iter_mut().zip(&self.kicks) {
            queue.publish();
            before_asking();
            if queue.wants_kick() {
                kick.write(1).unwrap();
            }
        }
    }

    /// Returns the next receive buffer that came back.
    pub fn take(&mut self) -> Option<Back> {
        let used = self.queues[RX].pop_used().unwrap()?;
        let (addr, room) = self.posted.remove(&used.id).expect("a buffer that was posted");
        assert!(used.len <= room, "{} bytes in a buffer of {room}", used.len);
        Some(Back { addr, room, len: used.len })
    }

    /// Returns the next frame and its buffers, which lie in `ram`; no bytes for a buffer that came back empty.
    pub fn receive(&mut self, ram: &[&Ram]) -> Option<(Vec<u8>, Vec<Back>)> {
        let read = |back: Back| {
            let ram = ram.iter().find(|ram| ram.has(back.addr)).expect("memory that the buffer lies in");
            ram.read(back.addr, back.len)
        };
        let first = self.take()?;
        let (mut bytes, mut buffers) = (read(first), vec![first]);
        if first.len > 0 {
            // num_buffers (virtio 1.2 §5.1.6.4); all of them come back at once.
            for _ in 1..u16::from_le_bytes([bytes[10], bytes[11]]) {
                let more = self.take().expect("all buffers of a frame");
                bytes.extend(read(more));
                buffers.push(more);
            }
            bytes.drain(..NET_HEADER as usize);
        }
        Some((bytes, buffers))
    }

    /// Sends a frame that lies at this address, after its header.
    pub fn send(&mut self, addr: u64, len: u32) {
        self.queues[TX].add(&[Buffer { addr, len, writable: false }]).expect("a free descriptor");
        self.sending += 1;
        self.publish();
    }

    /// Returns the number of chains still being sent.
    pub fn sending(&mut self) -> usize {
        while self.queues[TX].pop_used().unwrap().is_some() {
            self.sending -= 1;
        }
        self.sending
    }

    /// Returns all memory of the rings' region, with the rings themselves zeroed.
    pub fn around_rings(&self) -> Vec<u8> {
        let region = &self.rings.memory().regions()[0];
        let mut bytes = file_of(region);
        for config in &self.configs {
            let sizes = QueueConfig::area_sizes(config.negotiated.format(), SIZE);
            let areas =
                [(config.descriptors, sizes.descriptors), (config.driver, sizes.driver), (config.device, sizes.device)];
            for (addr, len) in areas {
                let at = (addr - region.guest_addr) as usize;
                bytes[at..at + len as usize].fill(0);
            }
        }
        bytes
    }
}

fn info(region: &Region) -> VhostUserMemoryRegionInfo {
    let file: &OwnedFd = &region.file;
    VhostUserMemoryRegionInfo {
        guest_phys_addr: region.guest_addr,
        memory_size: region.len,
        userspace_addr: region.user_addr,
        mmap_offset: region.offset,
        mmap_handle: file.as_raw_fd(),
    }
}
