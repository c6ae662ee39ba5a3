//! Tests of what becomes of a guest's buffers when the physical queue stops, and when it does not.

use super::super::fabric::Fabric;
use super::super::shared::{PortShared, SwitchParts};
use super::super::site::PortSite;
use super::*;
use crate::live::Live;
use crate::port::vhost_user::{Call, VhostTransmit};
use crate::port::virtio_user::{QueueResources, STRIDE, VirtioReceive};
use crate::port::{Ending, sink};
use crate::spec::{Driver, PortQueues, PortSpec, Tenancy};
use paflow::Rules;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use vhost_user::frontend::QueueEnd;
use virtqueue::device::Enqueue;
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::{Arena, Memory};
use virtqueue::{Negotiated, QueueConfig, features};

const SIZE: u16 = 64;

/// Returns a packed ring: a device that stops returns all buffers in the ring itself.
fn ring() -> (Arena, Queue, QueueConfig) {
    let mut arena = Arena::new(1 << 20, false).unwrap();
    let negotiated = Negotiated(features::VERSION_1 | features::RING_PACKED);
    let config = Queue::layout(&mut arena, SIZE, negotiated).unwrap();
    let queue = Queue::new(&arena, &config).unwrap();
    (arena, queue, config)
}

/// A physical port that only keeps buffers, and may refuse to release them.
struct Nic {
    holds: Arc<AtomicBool>,
    mapped: Arc<Mapped>,
}

impl Nic {
    fn half(&self) -> ReceiveHalf {
        let (mut arena, queue, config) = ring();
        let buffers = arena.allocate(u64::from(SIZE) * u64::from(STRIDE), 64).unwrap();
        let (arena, broken) = (Arc::new(arena), Arc::default());
        let queue = QueueEnd::create(queue, config).unwrap();
        let end = QueueResources { queue, buffers, arena, broken };
        Box::new(VirtioReceive::new(end, false, Some(self.mapped.clone()), 0))
    }
}

impl ZeroCopyQueue for Nic {
    fn share(&mut self, _: &[Arc<Memory>], _: Option<&[[u8; 6]]>) -> Result<(), String> {
        Ok(())
    }

    fn stop(&mut self, _: Direction) -> Result<(), String> {
        if self.holds.load(Ordering::Relaxed) { Err("it holds on".into()) } else { Ok(()) }
    }

    fn fail(&mut self) {}

    fn start_receive(&mut self) -> Result<ReceiveHalf, String> {
        Ok(self.half())
    }

    fn start_transmit(&mut self) -> Result<TransmitHalf, String> {
        Err("it does not send".into())
    }
}

/// Returns the place of a port without workers.
fn site(id: u64, name: &str) -> Arc<dyn Site> {
    let rules = Arc::new(Live::new(Rules::none()));
    let notifier = Arc::new(crate::punt::EventNotifier::new().unwrap());
    let spec = PortSpec::new(name, Driver::Sink(sink::Settings));
    let parts = SwitchParts { rules: &rules, relayed: &notifier, asked: &notifier };
    let shared = PortShared::new(id, &spec, Vec::new(), &parts);
    PortSite::of(&Arc::new(shared), &Arc::<Fabric>::default())
}

/// A mapping, and the guest's side of its receive queue.
struct Bench {
    mapping: Mapping,
    wan: Arc<dyn Site>,
    fw: Arc<dyn Site>,
    holds: Arc<AtomicBool>,
    guest: Queue,
    /// The switch's mapping of the guest's memory.
    memory: Weak<Memory>,
}

impl Bench {
    /// Returns a bench whose guest has posted buffers, all of which are on loan.
    fn new() -> Bench {
        let [wan, fw] = [site(1, "wan"), site(2, "fw")];
        let tenancy = Tenancy::Trust(Vec::new());
        let (from, to) = (PortQueues::all("wan"), PortQueues::all("fw"));
        let spec = MappingSpec { from, to, pass_through: true, tenancy, copy_break: Some(0) };
        let mapping = Mapping::new(spec, Verdict::InPlace, MappedQueues { physical: 0, guest: 0 });
        let (guest, holds) = (ring().1, Arc::default());
        let mut bench = Bench { mapping, wan, fw, holds, guest, memory: Weak::new() };
        bench.nic_comes();
        bench.guest_comes();
        bench.lend();
        bench
    }

    fn nic_comes(&self) {
        let nic = Nic { holds: self.holds.clone(), mapped: self.mapping.mapped() };
        self.wan.attach_receive(0, nic.half()).unwrap();
        self.mapping.physical_up(self.wan.clone(), Box::new(nic));
    }

    fn guest_comes(&mut self) {
        let (mut arena, mut guest, config) = ring();
        for _ in 0..SIZE {
            let addr = arena.allocate(2048, 64).unwrap();
            guest.add(&[Buffer { addr, len: 2048, writable: true }]).unwrap();
        }
        guest.publish();
        self.fw.fault().clear();
        let memory = Arc::new(Memory::map(arena.memory().regions().to_vec()).unwrap());
        let ring = Enqueue::new(memory.clone(), &config).unwrap();
        let half = VhostTransmit::new(ring, Call::new(None), self.fw.fault().clone(), Arc::default());
        self.fw.attach_transmit(0, Box::new(half)).unwrap();
        self.memory = Arc::downgrade(&memory);
        self.mapping.guest_up(Direction::ToGuest, Guest { site: self.fw.clone(), memory, id: 0 });
        self.guest = guest;
    }

    /// Lends buffers, as a worker does.
    fn lend(&self) {
        let half = self.wan.detach_receive(0).unwrap().expect("it runs");
        let to_guest = self.fw.detach_transmit(0).unwrap().expect("it runs");
        half.zero_copy().expect("it is mapped").relend(to_guest.guest().expect("it is a guest's"));
        self.wan.attach_receive(0, half).unwrap();
        self.fw.attach_transmit(0, to_guest).unwrap();
        assert_eq!(self.mapping.mapped().on_loan.get(), u64::from(SIZE));
    }

    /// Returns how many buffers the guest has back.
    fn back(&mut self) -> usize {
        std::iter::from_fn(|| self.guest.pop_used().unwrap()).count()
    }

    fn is_withheld(&self) -> bool {
        matches!(self.fw.fault().take(|| {}), Some(Ending::Withheld(why)) if why.contains("\"wan\"") && why.contains("it holds on"))
    }

    fn reason(&self) -> String {
        self.mapping.stats(|| Ok(())).reason.unwrap_or_default()
    }
}

#[test]
fn a_queue_that_stops_gives_everything_back() {
    let mut bench = Bench::new();
    let half = bench.mapping.guest_receive_down(&*bench.fw).unwrap().expect("it ran");
    assert_eq!((bench.back(), bench.fw.fault().take(|| {})), (usize::from(SIZE), None));
    drop(half);
    assert!(bench.memory.upgrade().is_none(), "nobody needs it any more");
}

#[test]
fn nothing_is_lent_while_a_change_is_made() {
    let bench = Bench::new();
    let mapped = bench.mapping.mapped();
    bench.mapping.at_rest(|| assert!(mapped.on_loan.get() == 0 && !mapped.is_reachable()));
    assert!(mapped.is_reachable());
    bench.lend();
    assert_eq!((bench.fw.fault().take(|| {}), bench.reason()), (None, String::new()));
}

#[test]
fn a_queue_that_does_not_stop_gives_nothing_back() {
    let mut bench = Bench::new();
    bench.holds.store(true, Ordering::Relaxed);
    let error =
        bench.mapping.guest_receive_down(&*bench.fw).err().expect("the guest must not hear that it has stopped");
    assert!(error.0.contains("\"wan\" still owns some of the guest's buffers"), "{error}");
    assert!(bench.is_withheld());
    assert_eq!(bench.back(), 0);
    assert!(bench.memory.upgrade().is_some(), "it may still be written to");

    // The next guest does not get a queue that has another guest's buffers.
    let before = bench.memory.clone();
    bench.guest_comes();
    assert!(!bench.mapping.mapped().is_reachable() && before.upgrade().is_some());
    assert!(bench.reason().contains("still owns"), "{}", bench.reason());
    bench.holds.store(false, Ordering::Relaxed);
    bench.mapping.physical_down();
    assert!(before.upgrade().is_some(), "that it has gone says nothing");
    bench.nic_comes();
    assert!(before.upgrade().is_none(), "it could be opened again");
    bench.lend();
    assert_eq!(bench.reason(), "");
}

/// The configuration may name another NIC: that it could be opened says nothing about the queue of the first.
#[test]
fn another_port_does_not_release_what_the_first_one_keeps() {
    let mut bench = Bench::new();
    bench.holds.store(true, Ordering::Relaxed);
    bench.mapping.physical_down();
    assert!(bench.mapping.guest_receive_down(&*bench.fw).is_err());
    let before = bench.memory.clone();
    bench.holds.store(false, Ordering::Relaxed);
    bench.wan = site(3, "wan");
    bench.nic_comes();
    assert!(before.upgrade().is_some(), "the first one may still write to it");
    bench.guest_comes();
    bench.lend();
}

#[test]
fn a_guest_that_stays_loses_its_device() {
    let mut bench = Bench::new();
    bench.holds.store(true, Ordering::Relaxed);
    bench.mapping.physical_down();
    assert!(bench.is_withheld());
    assert_eq!(bench.back(), 0);
    // The session does this at its end.
    assert!(bench.mapping.guest_receive_down(&*bench.fw).is_err());
    assert!(bench.memory.upgrade().is_some());
    assert_eq!(bench.back(), 0);
}

#[test]
fn memory_that_was_never_let_go_of_stays() {
    let Bench { mapping, wan, fw, holds, memory, .. } = Bench::new();
    holds.store(true, Ordering::Relaxed);
    mapping.physical_down();
    assert!(mapping.guest_receive_down(&*fw).is_err());
    drop((mapping, wan, fw));
    assert!(memory.upgrade().is_some());
}
