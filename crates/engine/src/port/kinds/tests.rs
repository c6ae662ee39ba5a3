//! The capabilities of each kind are those of the halves that its ports give to workers.

use super::*;
use crate::drops::Drops;
use crate::port::files::FileUses;
use crate::port::pace::Pace;
use crate::port::record::Recorder;
use crate::port::zero_copy::{Direction, Guest, GuestEnd, Mapped, PhysicalEnd, ZeroCopyQueue};
use crate::port::{ExchangeMember, Kept, ReceiveHalf, RxQueue, SessionFault, TransmitHalf, TxQueue};
use crate::stats::OffloadStats;
use ::vhost_user::{Event, Mode};
use nix::sched::{CloneFlags, unshare};
use packet::MacAddr;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};
use virtqueue::memory::{Arena, Memory};

/// The place of an open port in a switch that maps each of its queues, in both directions, and has no workers.
struct Place {
    drops: Arc<Drops>,
    fault: Arc<SessionFault>,
    files: Arc<FileUses>,
    mapped: Arc<Mapped>,
    receive: Mutex<Option<ReceiveHalf>>,
    transmit: Mutex<Option<TransmitHalf>>,
}

impl Place {
    fn new(guest: &Arc<Memory>) -> Arc<Place> {
        let mapped = Mapped::new(true, Some(0));
        mapped.set_reachable(Some(guest.clone()));
        Arc::new(Place {
            drops: Arc::default(),
            fault: Arc::default(),
            files: Arc::default(),
            mapped: Arc::new(mapped),
            receive: Mutex::default(),
            transmit: Mutex::default(),
        })
    }

    /// Returns the abilities of the halves of queue 0, once both are there. Its peer may come later.
    fn abilities(&self) -> Abilities {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            if let (Some(receive), Some(transmit)) = (&*self.receive.lock().unwrap(), &*self.transmit.lock().unwrap()) {
                return Abilities::of(&**receive, &**transmit);
            }
            assert!(Instant::now() < end, "the port has no queue");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Site for Place {
    fn name(&self) -> &str {
        "port"
    }

    fn queues(&self) -> usize {
        1
    }

    fn drops(&self) -> &Arc<Drops> {
        &self.drops
    }

    fn fault(&self) -> &Arc<SessionFault> {
        &self.fault
    }

    #[cfg(feature = "analysis")]
    fn analysis(&self) -> crate::port::Analysis {
        crate::port::Analysis::default()
    }

    fn overhead(&self) -> u32 {
        0
    }

    fn aggregates(&self) -> bool {
        false
    }

    fn needs_complete(&self) -> Option<&'static str> {
        None
    }

    fn set_offloads(&self, _: OffloadStats) {}

    fn physical_end(&self, _: usize) -> Option<&dyn PhysicalEnd> {
        Some(self)
    }

    fn guest_end(&self, _: usize) -> Option<&dyn GuestEnd> {
        Some(self)
    }

    fn exchange(&self) -> Option<&ExchangeMember> {
        None
    }

    fn set_state(&self, _: bool, _: String) {}

    fn set_interface(&self, _: MacAddr, _: Option<u32>) {}

    fn set_guest(&self, _: Result<(), String>) {}

    fn set_open(&self, _: bool) {}

    fn set_disconnect(&self, _: Box<dyn Fn() + Send + Sync>) {}

    fn files(&self) -> &Arc<FileUses> {
        &self.files
    }

    fn write_to(&self, _: Recorder) {}

    fn attach_receive(&self, queue: usize, half: ReceiveHalf) -> Result<(), Kept> {
        assert_eq!(queue, 0);
        *self.receive.lock().unwrap() = Some(half);
        Ok(())
    }

    fn attach_transmit(&self, queue: usize, half: TransmitHalf) -> Result<(), Kept> {
        assert_eq!(queue, 0);
        *self.transmit.lock().unwrap() = Some(half);
        Ok(())
    }

    fn detach_receive(&self, _: usize) -> Result<Option<ReceiveHalf>, Kept> {
        Ok(self.receive.lock().unwrap().take())
    }

    fn detach_transmit(&self, _: usize) -> Result<Option<TransmitHalf>, Kept> {
        Ok(self.transmit.lock().unwrap().take())
    }

    fn rewire(&self, _: usize, _: Option<Event>) -> Result<(), Kept> {
        Ok(())
    }

    fn clear(&self, _: usize) {
        self.receive.lock().unwrap().take();
        self.transmit.lock().unwrap().take();
    }
}

impl PhysicalEnd for Place {
    fn physical_up(&self, site: Arc<dyn Site>, mut queue: Box<dyn ZeroCopyQueue>) -> Result<(), String> {
        let receive = queue.start_receive(Some(self.mapped.clone()))?;
        let transmit = queue.start_transmit(Some(self.mapped.clone()))?;
        site.attach(0, receive, transmit).map_err(|why| why.to_string())
    }

    fn physical_down(&self) {}
}

impl GuestEnd for Place {
    fn guest_up(&self, _: Direction, _: Guest) {}

    fn guest_receive_down(&self, site: &dyn Site) -> Result<Option<TransmitHalf>, Kept> {
        site.detach_transmit(0)
    }

    fn guest_transmit_down(&self, site: &dyn Site) -> Result<Option<ReceiveHalf>, Kept> {
        site.detach_receive(0)
    }
}

/// Abilities of halves, each named like the capability of a kind that promises it.
#[derive(Debug, PartialEq)]
struct Abilities {
    lends: [bool; 2],
    has_guest: [bool; 2],
    shares: bool,
}

impl Abilities {
    fn of(receive: &dyn RxQueue, transmit: &dyn TxQueue) -> Abilities {
        Abilities {
            lends: [receive.zero_copy().is_some(), transmit.zero_copy().is_some()],
            has_guest: [receive.chains().is_some(), transmit.guest().is_some()],
            shares: receive.holds().is_some(),
        }
    }
}

impl From<Capabilities> for Abilities {
    fn from(can: Capabilities) -> Abilities {
        Abilities { lends: [can.lends; 2], has_guest: [can.has_guest; 2], shares: can.shares }
    }
}

/// Returns ports of all kinds. Opened in this order, each finds what it needs: an interface, a peer.
fn ports(directory: &Path) -> Vec<Driver> {
    let [socket, replayed, recorded] = ["socket", "replayed", "recorded"].map(|name| directory.join(name));
    std::fs::write(&replayed, capture::file_header(0)).unwrap();
    let interface = "tap0".to_owned();
    let pcap = |replay, record| Driver::Pcap(pcap::Settings { replay, record, repeat: false, pace: Pace::default() });
    vec![
        Driver::Generator(generator::Settings { size: 64, pace: Pace::default(), frames: 0, mac: None }),
        Driver::Sink(sink::Settings),
        Driver::Loopback(loopback::Settings),
        pcap(Some(replayed), None),
        pcap(None, Some(recorded)),
        Driver::Tap(tap::Settings { interface: Some(interface.clone()), mtu: None, queues: 1, offloads: None }),
        Driver::AfPacket(af_packet::Settings { interface: interface.clone(), queues: 1, offloads: None }),
        Driver::AfXdp(af_xdp::Settings {
            interface,
            queues: 1,
            mode: xsk::Mode::Auto,
            queue_size: 64,
            steer: Vec::new(),
        }),
        Driver::VhostUser(vhost_user::Settings::at(socket.clone())),
        Driver::VirtioUser(virtio_user::Settings {
            socket,
            mode: Mode::Client,
            queues: 1,
            queue_sizes: 256.into(),
            packed: false,
            offloads: None,
        }),
    ]
}

#[test]
fn a_kind_can_do_what_the_halves_of_its_ports_can() {
    // In a network namespace of this thread and of those that it starts.
    unshare(CloneFlags::CLONE_NEWNET).expect("this test needs to run as root");
    let directory = tempfile::tempdir().unwrap();
    let guest = Arena::new(1 << 20, false).unwrap().memory().clone();
    let open = |driver: Driver| {
        let place = Place::new(&guest);
        let site: Arc<dyn Site> = place.clone();
        let opened = driver.open(&site).unwrap_or_else(|why| panic!("{}: {why}", driver.name()));
        assert_eq!(opened.trouble, None, "{}", driver.name());
        (driver, place, opened)
    };
    let open: Vec<_> = ports(directory.path()).into_iter().map(open).collect();
    for (driver, place, _) in &open {
        assert_eq!(place.abilities(), driver.capabilities().into(), "{}", driver.name());
    }
    // Those of a DPDK device need DPDK, of which a process has one: e2e/tests/mapping/dpdk.rs.
    for (kind, _) in KINDS.iter().filter(|(kind, _)| *kind != "dpdk") {
        assert!(
            open.iter().any(|(driver, ..)| driver.name() == *kind),
            "add a port of driver {kind} to those of this test"
        );
    }
}
