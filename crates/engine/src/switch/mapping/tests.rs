//! Tests of what becomes of a guest's buffers when the physical queue stops, and when it does not.

use super::super::fabric::Fabric;
use super::super::layout::Layout;
use super::super::shared::{CommonParts, PortShared};
use super::super::site::PortSite;
use super::*;
use crate::events::Events;
use crate::live::Live;
use crate::port::vhost_user::{Call, VhostTransmit};
use crate::port::virtio_user::{QueueResources, STRIDE, VirtioReceive, VirtioTransmit};
use crate::port::zero_copy::{self, PhysicalEnd, ZeroCopyQueue};
use crate::port::{Ending, sink};
use crate::spec::{Driver, PortQueues, PortSpec, Spec, Tenancy};
use paflow::AggregationRules;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vhost_user::frontend::QueueEnd;
use virtqueue::device::Enqueue;
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::{Arena, Memory};
use virtqueue::{Negotiated, QueueConfig, features};

const SIZE: u16 = 64;

/// Reason why nothing is lent after the queue of [`Nic`] did not stop.
const STOPS_NOT: &str = "port \"wan\" is being opened again: queue 0 could not be stopped: it holds on";

/// Returns a packed ring: a device that stops returns all buffers in the ring itself.
fn ring() -> (Arena, Queue, QueueConfig) {
    let mut arena = Arena::new(1 << 20, false).unwrap();
    let negotiated = Negotiated(features::VERSION_1 | features::RING_PACKED);
    let config = Queue::layout(&mut arena, SIZE, negotiated).unwrap();
    let queue = Queue::new(&arena, &config).unwrap();
    (arena, queue, config)
}

/// A physical port that only keeps buffers, and may refuse to release them, or to send.
#[derive(Clone, Default)]
struct Nic {
    holds: Arc<AtomicBool>,
    is_mute: Arc<AtomicBool>,
    /// Mappings that its receive half was ever started with, and loans of all of them when it was started last.
    mappings: Arc<Mutex<Vec<Arc<Mapped>>>>,
    on_loan: Arc<AtomicU64>,
}

impl Nic {
    fn end() -> QueueResources {
        let (mut arena, queue, config) = ring();
        let buffers = arena.allocate(u64::from(SIZE) * u64::from(STRIDE), 64).unwrap();
        let (arena, broken) = (Arc::new(arena), Arc::default());
        QueueResources {
            queue: QueueEnd::create(queue, config).unwrap(),
            buffers,
            arena,
            broken,
            drops: Arc::default(),
        }
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

    fn start_receive(&mut self, mapped: Option<Arc<Mapped>>) -> Result<ReceiveHalf, String> {
        let mut mappings = self.mappings.lock().unwrap();
        self.on_loan.store(mappings.iter().map(|mapped| mapped.on_loan.get()).sum(), Ordering::Relaxed);
        mappings.extend(mapped.clone());
        Ok(Box::new(VirtioReceive::new(Nic::end(), false, mapped, 0)))
    }

    fn start_transmit(&mut self, mapped: Option<Arc<Mapped>>) -> Result<TransmitHalf, String> {
        if self.is_mute.load(Ordering::Relaxed) {
            return Err("it is mute".into());
        }
        Ok(Box::new(VirtioTransmit::new(Nic::end(), mapped)))
    }
}

/// Returns the place of a port without workers.
fn site(id: u64, name: &str) -> Arc<dyn Site> {
    site_with(id, name, Ends::None)
}

fn site_with(id: u64, name: &str, ends: Ends) -> Arc<dyn Site> {
    let rules = Arc::new(Live::new(AggregationRules::none()));
    let notifier = Arc::new(handover::EventNotifier::new().unwrap());
    let spec = PortSpec::new(name, Driver::Sink(sink::Settings));
    let parts = CommonParts {
        rules: &rules,
        relayed: &notifier,
        asked: &notifier,
        exchanges: &[],
        files: &Arc::default(),
        events: &Arc::new(Events::new()),
    };
    let shared = PortShared::new(id, &spec, ends, &parts, None);
    let nothing = Arc::new(Layout::new(&Spec::default(), vec![], vec![], vec![]));
    PortSite::of(&Arc::new(shared), &Arc::new(Fabric::new(nothing, Arc::default())))
}

/// Returns a mapping of the physical port to this one.
fn mapping(to: &str) -> Arc<Mapping> {
    let tenancy = Tenancy::Trust(Vec::new());
    let (from, to) = (PortQueues::all("wan"), PortQueues::all(to));
    let spec = MappingSpec { from, to, pass_through: true, tenancy, copy_break: None };
    Arc::new(Mapping::new(spec, Verdict::InPlace, MappedQueues { physical: 0, guest: 0 }))
}

/// A mapping, and the guest's side of its receive queue.
struct Function {
    mapping: Arc<Mapping>,
    site: Arc<dyn Site>,
    ring: Queue,
    /// The switch's mapping of the guest's memory.
    memory: Weak<Memory>,
}

impl Function {
    fn new(id: u64, name: &str) -> Function {
        Function { mapping: mapping(name), site: site(id, name), ring: ring().1, memory: Weak::new() }
    }

    /// Adds a guest that has posted buffers.
    fn comes(&mut self) {
        let (mut arena, mut guest, config) = ring();
        for _ in 0..SIZE {
            let addr = arena.allocate(2048, 64).unwrap();
            guest.add(&[Buffer { addr, len: 2048, writable: true }]).unwrap();
        }
        guest.publish();
        self.site.fault().clear();
        let memory = Arc::new(Memory::map(arena.memory().regions().to_vec()).unwrap());
        let ring = Enqueue::new(memory.clone(), &config).unwrap();
        let half = VhostTransmit::new(ring, Call::new(None), self.site.fault().clone(), Arc::default());
        self.site.attach_transmit(0, Box::new(half)).unwrap();
        self.memory = Arc::downgrade(&memory);
        self.mapping.guest_up(Direction::ToGuest, Guest { site: self.site.clone(), memory, id: 0 });
        self.ring = guest;
    }

    /// Removes its guest.
    fn goes(&self) -> Result<Option<TransmitHalf>, Kept> {
        self.mapping.guest_receive_down(&*self.site)
    }

    /// Returns how many buffers the guest has back.
    fn back(&mut self) -> usize {
        std::iter::from_fn(|| self.ring.pop_used().unwrap()).count()
    }

    fn has_memory(&self) -> bool {
        self.memory.upgrade().is_some()
    }

    /// Reports whether its session has to end, as the physical port keeps its buffers.
    fn is_withheld(&self) -> bool {
        let is_right = |why: &str| why.contains("\"wan\"") && why.contains("it holds on");
        matches!(self.site.fault().take(|| {}), Some(Ending::Withheld(why)) if is_right(&why))
    }

    fn reason(&self) -> String {
        self.mapping.stats(|| Ok(())).reason.unwrap_or_default()
    }
}

/// A seat whose queue is up and mapped to `fw`.
struct Bench {
    wan: Arc<dyn Site>,
    seat: MappingSlot,
    nic: Nic,
    fw: Function,
}

impl Bench {
    /// Returns a bench whose guest has posted buffers, all of which are on loan.
    fn new() -> Bench {
        let fw = Function::new(2, "fw");
        let seat = MappingSlot::new(0, Some(fw.mapping.clone()));
        let mut bench = Bench { wan: site(1, "wan"), seat, nic: Nic::default(), fw };
        bench.nic_comes();
        bench.fw.comes();
        bench.lend(&bench.fw);
        bench
    }

    fn nic_comes(&self) {
        self.seat.physical_up(self.wan.clone(), Box::new(self.nic.clone())).unwrap();
    }

    /// Changes the mapping of the queue, which goes on.
    fn set(&self, mapping: Option<&Function>) {
        self.seat.set(mapping.map(|function| &function.mapping)).unwrap();
    }

    /// Changes the mapping of the queue, which does not stop.
    fn set_in_vain(&self, mapping: Option<&Function>) {
        let failed = self.seat.set(mapping.map(|function| &function.mapping));
        assert_eq!(failed, Err("queue 0 could not be stopped: it holds on".into()));
    }

    fn holds(&self, holds: bool) {
        self.nic.holds.store(holds, Ordering::Relaxed);
    }

    /// Lends all buffers of a guest, as a worker does.
    fn lend(&self, to: &Function) {
        let half = self.wan.detach_receive(0).unwrap().expect("it runs");
        let to_guest = to.site.detach_transmit(0).unwrap().expect("it runs");
        half.zero_copy().expect("it is mapped").relend(to_guest.guest().expect("it is a guest's"));
        self.wan.attach_receive(0, half).unwrap();
        to.site.attach_transmit(0, to_guest).unwrap();
        assert_eq!(to.mapping.mapped.on_loan.get(), u64::from(SIZE));
    }

    /// Reports whether the physical queue runs, and whether it lends.
    fn runs_and_lends(&self) -> (bool, bool) {
        let half = self.wan.detach_receive(0).unwrap();
        let found = (half.is_some(), half.as_ref().is_some_and(|half| half.zero_copy().is_some()));
        half.into_iter().for_each(|half| self.wan.attach_receive(0, half).unwrap());
        found
    }
}

#[test]
fn a_queue_that_stops_gives_everything_back() {
    let mut bench = Bench::new();
    let half = bench.fw.goes().unwrap().expect("it ran");
    assert_eq!((bench.fw.back(), bench.fw.site.fault().take(|| {})), (usize::from(SIZE), None));
    drop(half);
    assert!(!bench.fw.has_memory(), "nobody needs it any more");
}

#[test]
fn nothing_is_lent_while_a_change_is_made() {
    let bench = Bench::new();
    let mapped = &bench.fw.mapping.mapped;
    bench.fw.mapping.at_rest(|| assert!(mapped.on_loan.get() == 0 && !mapped.is_reachable()));
    assert!(mapped.is_reachable());
    bench.lend(&bench.fw);
    assert_eq!((bench.fw.site.fault().take(|| {}), bench.fw.reason()), (None, String::new()));
}

#[test]
fn a_queue_that_does_not_stop_gives_nothing_back() {
    let mut bench = Bench::new();
    bench.holds(true);
    let error = bench.fw.goes().err().expect("the guest must not hear that it has stopped");
    assert!(error.0.contains("\"wan\" still owns some of the guest's buffers"), "{error}");
    assert!(bench.fw.is_withheld());
    assert_eq!(bench.fw.back(), 0);
    assert!(bench.fw.has_memory(), "it may still be written to");

    // The next guest does not get a queue that has another guest's buffers.
    let before = bench.fw.memory.clone();
    bench.fw.comes();
    assert!(!bench.fw.mapping.mapped.is_reachable() && before.upgrade().is_some());
    assert_eq!(bench.fw.reason(), STOPS_NOT);
    bench.holds(false);
    bench.seat.physical_down();
    assert!(before.upgrade().is_some(), "that it has gone says nothing");
    bench.nic_comes();
    assert!(before.upgrade().is_none(), "it could be opened again");
    bench.lend(&bench.fw);
    assert_eq!(bench.fw.reason(), "");
}

/// The configuration may name another NIC: that it could be opened says nothing about the queue of the first.
#[test]
fn another_port_does_not_release_what_the_first_one_keeps() {
    let mut bench = Bench::new();
    bench.holds(true);
    bench.seat.physical_down();
    assert!(bench.fw.goes().is_err());
    let before = bench.fw.memory.clone();
    bench.holds(false);
    (bench.wan, bench.seat) = (site(3, "wan"), MappingSlot::new(0, Some(bench.fw.mapping.clone())));
    bench.nic_comes();
    assert!(before.upgrade().is_some(), "the first one may still write to it");
    bench.fw.comes();
    bench.lend(&bench.fw);
}

#[test]
fn a_guest_that_stays_loses_its_device() {
    let mut bench = Bench::new();
    bench.holds(true);
    bench.seat.physical_down();
    assert!(bench.fw.is_withheld());
    assert_eq!(bench.fw.back(), 0);
    // The session does this at its end.
    assert!(bench.fw.goes().is_err());
    assert!(bench.fw.has_memory());
    assert_eq!(bench.fw.back(), 0);
}

#[test]
fn memory_that_was_never_let_go_of_stays() {
    let bench = Bench::new();
    bench.holds(true);
    bench.seat.physical_down();
    assert!(bench.fw.goes().is_err());
    let memory = bench.fw.memory.clone();
    drop(bench);
    assert!(memory.upgrade().is_some());
}

/// Every buffer is back before the other guest lends. Both guests are there all the time.
#[test]
fn a_queue_changes_its_mapping() {
    let mut bench = Bench::new();
    let mut dpi = Function::new(3, "dpi");
    dpi.comes();
    assert!(dpi.reason().contains("port \"wan\" is down"), "{}", dpi.reason());
    bench.set(Some(&dpi));
    assert_eq!(bench.nic.on_loan.load(Ordering::Relaxed), 0, "buffers were still on loan when the queue was started");
    assert!(!bench.fw.mapping.mapped.is_reachable() && dpi.mapping.mapped.is_reachable());
    bench.lend(&dpi);
    assert_eq!((bench.fw.reason(), dpi.reason()), ("port \"wan\" is down".into(), String::new()));
    // That the first guest goes does not concern the queue any more.
    drop(bench.fw.goes().unwrap());
    assert_eq!((bench.fw.back(), bench.fw.site.fault().take(|| {})), (usize::from(SIZE), None));
    assert!(!bench.fw.has_memory());
    assert_eq!(dpi.mapping.mapped.on_loan.get(), u64::from(SIZE));
    drop(dpi.goes().unwrap());
    assert_eq!(dpi.back(), usize::from(SIZE));
}

#[test]
fn a_queue_loses_its_mapping_and_gets_another() {
    let mut bench = Bench::new();
    bench.set(None);
    assert_eq!(bench.runs_and_lends(), (true, false));
    drop(bench.fw.goes().unwrap());
    assert_eq!((bench.fw.back(), bench.fw.has_memory()), (usize::from(SIZE), false));
    let mut dpi = Function::new(3, "dpi");
    bench.set(Some(&dpi));
    assert_eq!(bench.runs_and_lends(), (true, false));
    dpi.comes();
    bench.lend(&dpi);
    assert_eq!(dpi.reason(), "");
    // A mapping that stays is not touched.
    bench.set(Some(&dpi));
    assert_eq!(dpi.mapping.mapped.on_loan.get(), u64::from(SIZE));
}

#[test]
fn a_port_that_is_down_changes_its_mapping() {
    let bench = Bench::new();
    bench.seat.physical_down();
    assert_eq!(bench.fw.mapping.mapped.on_loan.get(), 0);
    let mut dpi = Function::new(3, "dpi");
    dpi.comes();
    bench.set(Some(&dpi));
    assert!(dpi.reason().contains("is down"), "{}", dpi.reason());
    bench.nic_comes();
    bench.lend(&dpi);
    bench.seat.physical_down();
    bench.wan.clear(1);
    bench.set(None);
    assert_eq!(bench.runs_and_lends(), (false, false));
    drop(dpi.goes().unwrap());
    assert_eq!(dpi.back(), usize::from(SIZE));
    bench.nic_comes();
    assert_eq!(bench.runs_and_lends(), (true, false));
}

/// The next guest gets no queue that may still fill another one's buffers, until the port could be opened again.
#[test]
fn a_queue_that_does_not_stop_gets_no_other_mapping() {
    for has_next in [true, false] {
        let mut bench = Bench::new();
        let mut dpi = Function::new(3, "dpi");
        bench.holds(true);
        bench.set_in_vain(has_next.then_some(&dpi));
        assert!(bench.fw.is_withheld() && bench.fw.goes().is_err());
        dpi.comes();
        assert!(!dpi.mapping.mapped.is_reachable());
        assert_eq!(dpi.reason(), if has_next { STOPS_NOT } else { "port \"wan\" is down" });
        bench.holds(false);
        bench.seat.physical_down();
        assert!(bench.fw.has_memory() && bench.fw.back() == 0, "it may still be written to");
        bench.nic_comes();
        assert!(!bench.fw.has_memory(), "it could be opened again");
        if has_next {
            bench.lend(&dpi);
        }
    }
}

#[test]
fn memory_of_a_mapping_that_is_gone_stays_as_well() {
    let bench = Bench::new();
    bench.holds(true);
    bench.set_in_vain(None);
    assert!(bench.fw.goes().is_err());
    let memory = bench.fw.memory.clone();
    bench.seat.physical_down();
    drop(bench);
    assert!(memory.upgrade().is_some());
}

/// The queue has buffers of the switch only, so no guest loses any. The next mapping cannot use the queue all the same.
#[test]
fn a_queue_that_does_not_stop_without_loans_has_failed_too() {
    type Failing = fn(&mut Bench, &Function);
    let unmapped: Failing = |bench, dpi| {
        bench.set(None);
        bench.holds(true);
        bench.set_in_vain(Some(dpi));
    };
    let without_guest: Failing = |bench, dpi| {
        drop(bench.fw.goes().unwrap());
        bench.holds(true);
        bench.set_in_vain(Some(dpi));
    };
    let twice: Failing = |bench, dpi| {
        drop(bench.fw.goes().unwrap());
        bench.holds(true);
        bench.set_in_vain(None);
        bench.set_in_vain(Some(dpi));
    };
    for fails in [unmapped, without_guest, twice] {
        let (mut bench, mut dpi) = (Bench::new(), Function::new(3, "dpi"));
        fails(&mut bench, &dpi);
        bench.holds(false);
        assert_eq!((bench.runs_and_lends(), dpi.reason()), ((false, false), STOPS_NOT.into()));
        dpi.comes();
        assert!(!dpi.mapping.mapped.is_reachable());
        assert_eq!((bench.runs_and_lends(), dpi.reason()), ((false, false), STOPS_NOT.into()));
        assert!(bench.fw.site.fault().take(|| {}).is_none() && dpi.site.fault().take(|| {}).is_none());
        bench.seat.physical_down();
        assert_eq!(dpi.reason(), "port \"wan\" is down");
        bench.nic_comes();
        bench.lend(&dpi);
        assert_eq!(dpi.reason(), "");
    }
}

/// A reload does not report success because the port noticed the failure first.
#[test]
fn a_queue_that_did_not_stop_has_failed_until_its_port_could_be_opened_again() {
    let (bench, dpi) = (Bench::new(), Function::new(3, "dpi"));
    bench.holds(true);
    assert!(bench.fw.goes().is_err());
    bench.seat.physical_down();
    bench.set_in_vain(Some(&dpi));
    bench.seat.physical_down();
    bench.set_in_vain(None);
    bench.holds(false);
    bench.nic_comes();
    bench.set(Some(&dpi));
    bench.seat.physical_down();
    bench.set(None);
}

#[test]
fn a_guest_comes_to_a_queue_that_does_not_stop() {
    let mut bench = Bench::new();
    drop(bench.fw.goes().unwrap());
    bench.holds(true);
    bench.fw.comes();
    assert!(!bench.fw.mapping.mapped.is_reachable());
    assert_eq!((bench.runs_and_lends(), bench.fw.reason()), ((false, false), STOPS_NOT.into()));
    // It had nothing of this guest, so the guest may go.
    drop(bench.fw.goes().unwrap());
    assert!(!bench.fw.has_memory() && bench.fw.site.fault().take(|| {}).is_none());
}

/// The port's thread hears it, so that it shows the reason and takes its time before it tries again.
#[test]
fn a_queue_that_does_not_start_closes_its_port() {
    let fw = Function::new(2, "fw");
    for mapping in [Some(fw.mapping.clone()), None] {
        let wan = site_with(1, "wan", Ends::Physical(vec![MappingSlot::new(0, mapping)]));
        let nic = Nic::default();
        nic.is_mute.store(true, Ordering::Relaxed);
        let opened = zero_copy::attach(&wan, 0, Box::new(nic.clone()));
        assert_eq!(opened, Err("queue 0 does not send: it is mute".into()));
        wan.physical_down();
        wan.clear(1);
        nic.is_mute.store(false, Ordering::Relaxed);
        zero_copy::attach(&wan, 0, Box::new(nic)).unwrap();
    }
    assert!(fw.reason().contains("no guest has started"), "{}", fw.reason());
}
