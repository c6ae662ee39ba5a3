//! DPDK, devices with buffers of the switch's own, and frames that tell whether they are right.

use crate::memory::Memory;
use dpdk::{Abilities, Config, Device, Dpdk, Frame, Kind, Loan, Options, Plugin, Receive, Region, ToSend, Transmit};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Time limit for what is certain to come.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Start of a frame in an own buffer, and in a guest's.
pub const OWN_START: u16 = 128;
pub const GUEST_START: u16 = 12;

/// Size of an own buffer, and of a guest's.
pub const OWN_SIZE: usize = 2560;
pub const GUEST_SIZE: usize = 2560;

pub const CONFIG: Config = Config {
    queues: 1,
    receive_size: 64,
    transmit_size: 64,
    mtu: None,
    interrupts: false,
    rss: false,
    room: 2048,
    work: NOTHING,
};

const NOTHING: Abilities = Abilities { checksum: false, tcp4: false, tcp6: false };

/// Returns the path of the plugin.
pub fn plugin() -> PathBuf {
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    let build = || lab::dpdk::plugin::built("port", "libmillrace_dpdk.so", &lab::dpdk::plugin::programs().unwrap());
    PLUGIN.get_or_init(|| build().expect("the plugin builds")).clone()
}

/// Starts DPDK without huge pages.
pub fn start() -> Dpdk {
    let options = Options { devices: Vec::new(), memory: 64 << 20, huge_pages: false };
    Plugin::open(&plugin()).unwrap().start(&options).unwrap()
}

/// Waits until a condition holds.
pub fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A device of one queue, with own buffers.
pub struct Port {
    pub receive: Receive,
    pub transmit: Transmit,
    pub own: Memory,
    // Before the memory, and the device.
    pub own_region: Option<Region>,
    pub device: Device,
    records: Vec<Frame>,
}

/// A received frame.
pub struct Received {
    pub kind: Kind,
    pub id: u32,
    /// Where it is.
    pub addr: u64,
    pub len: usize,
    pub more: bool,
}

impl Port {
    /// Attaches and sets up a device, with a reserve of own buffers. It is not started.
    pub fn open(dpdk: &Dpdk, device: &str, config: &Config) -> Port {
        let mut device = dpdk.probe(device).unwrap();
        let own = Memory::new(1024, OWN_SIZE);
        let region = own.share(&device);
        let (receive, transmit) = device.open(config).unwrap().pop().unwrap();
        let mut port =
            Port { receive, transmit, own, own_region: Some(region), device, records: vec![Frame::default(); 128] };
        let all: Vec<u32> = (0..port.receive.reserve() as u32).collect();
        port.lend_own(&all);
        port
    }

    /// As `open`, and starts it.
    pub fn started(dpdk: &Dpdk, device: &str) -> Port {
        let port = Port::open(dpdk, device, &CONFIG);
        port.device.start().unwrap();
        port
    }

    /// Starts the device again if it has to register memory.
    pub fn register(&self) {
        if !self.device.has_registered() {
            self.device.stop().unwrap();
            self.device.start().unwrap();
        }
    }

    /// Lends own buffers.
    pub fn lend_own(&mut self, numbers: &[u32]) {
        let loan = |&number: &u32| Loan::new(self.own.addr(number), OWN_SIZE as u32, OWN_START, number);
        let loans: Vec<Loan> = numbers.iter().map(loan).collect();
        assert_eq!(self.receive.lend(Kind::Own, &loans), loans.len());
    }

    /// Lends a guest's buffers.
    pub fn lend(&mut self, memory: &Memory, numbers: impl IntoIterator<Item = u32>) {
        let loan = |number: u32| Loan::new(memory.addr(number), memory.size as u32, GUEST_START, number);
        let loans: Vec<Loan> = numbers.into_iter().map(loan).collect();
        assert_eq!(self.receive.lend(Kind::Guest, &loans), loans.len());
    }

    /// Receives what is there.
    pub fn burst(&mut self) -> Vec<Received> {
        let count = self.receive.burst(&mut self.records, usize::MAX);
        let received = |frame: &Frame| Received {
            kind: frame.kind(),
            id: frame.id,
            addr: frame.addr,
            len: frame.len.into(),
            more: frame.more(),
        };
        self.records[..count].iter().map(received).collect()
    }

    /// Sends frames, whole.
    pub fn send(&mut self, frames: &[ToSend]) {
        let mut sent = 0;
        wait("room in the transmit ring", || {
            sent += self.transmit.send(&frames[sent..]);
            self.transmit.clean();
            sent == frames.len()
        });
    }

    /// Returns ids of finished records.
    pub fn done(&mut self) -> Vec<u32> {
        let mut ids = [0; 64];
        let count = self.transmit.done(&mut ids);
        ids[..count].to_vec()
    }

    /// Takes back what the device does not have, of a guest.
    pub fn reclaimed(&mut self) -> Vec<u32> {
        let mut ids = Vec::new();
        self.receive.reclaim(Kind::Guest, &mut ids);
        ids
    }
}

/// Returns a frame with a number, of this length, whose bytes follow from both.
pub fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, 0x88, 0xb5];
    bytes.extend(number.to_be_bytes());
    bytes.extend((len as u32).to_be_bytes());
    bytes.extend((bytes.len()..len).map(|at| (number as usize * 131 + at * 7) as u8));
    bytes
}

/// Returns the number of a frame of `frame`, if it is one; checks each of its bytes.
pub fn number(bytes: &[u8]) -> Option<u32> {
    if bytes.len() < 22 || bytes[12..14] != [0x88, 0xb5] {
        return None;
    }
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(bytes, frame(word(14), word(18) as usize));
    Some(word(14))
}

/// Asserts that each comes once.
pub fn once(seen: &mut HashSet<u32>, id: u32) {
    assert!(seen.insert(id), "{id} came twice");
}
