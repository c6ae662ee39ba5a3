//! Loans end: what a driver gives back, and when.

use crate::memory::Memory;
use crate::process::{alone, in_a_namespace};
use crate::rig::{CONFIG, GUEST_SIZE, Port, frame, start, wait};
use dpdk::{Config, Kind, ToSend};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// Puts the tap's end of the kernel to work, until the result is dropped.
struct Traffic {
    port: Port,
    _region: dpdk::Region,
    source: Memory,
}

impl Traffic {
    fn start(dpdk: &dpdk::Dpdk) -> Traffic {
        let port = Port::started(dpdk, "net_af_packet0,iface=dtap0");
        let source = Memory::new(1, 4096);
        let region = source.share(&port.device);
        source.write(source.addr(0), &frame(1, 1000));
        Traffic { port, _region: region, source }
    }

    fn send(&mut self) {
        self.port.transmit.send(&[ToSend::new(self.source.addr(0), 1000, 0); 8]);
        self.port.done();
    }
}

#[test]
fn a_tap_keeps_buffers_until_it_is_attached_again() {
    in_a_namespace(|| {
        let dpdk = start();
        let mut tap = Port::started(&dpdk, "net_tap0,iface=dtap0");
        let guest = Memory::new(256, GUEST_SIZE);
        let is_gone = guest.is_gone();
        let region = guest.share(&tap.device);
        let mut traffic = Traffic::start(&dpdk);
        tap.lend(&guest, 0..128);
        let mut received = HashSet::new();
        wait("frames", || {
            traffic.send();
            received.extend(tap.burst().iter().filter(|frame| frame.kind == Kind::Guest).map(|frame| frame.id));
            received.len() >= 64
        });
        let waiting: HashSet<u32> = tap.reclaimed().into_iter().collect();
        let (kept, _) = tap.device.loans_out();
        assert!(kept > 0 && kept == tap.receive.out().guest, "{kept}");
        assert_eq!(received.len() + waiting.len() + kept as usize, 128);

        // It says that it has stopped, and keeps them.
        tap.device.stop().unwrap();
        assert_eq!(tap.device.loans_out().0, kept);
        assert_eq!(tap.burst().len(), 0);
        tap.device.reattach().unwrap();
        assert_eq!(tap.device.loans_out().0, 0);
        let back: HashSet<u32> = tap.reclaimed().into_iter().collect();
        assert_eq!(back.len(), kept as usize);
        assert!(received.is_disjoint(&waiting) && received.is_disjoint(&back) && waiting.is_disjoint(&back));

        // Nothing is written to the guest's memory any more, while traffic goes on.
        guest.fill(0xcd);
        let (receive, transmit) = tap.device.open(&CONFIG).unwrap().pop().unwrap();
        (tap.receive, tap.transmit) = (receive, transmit);
        let all: Vec<u32> = (0..tap.receive.reserve() as u32).collect();
        tap.lend_own(&all);
        tap.device.start().unwrap();
        drop(traffic);
        let mut traffic = Traffic::start(&dpdk);
        let mut frames = 0;
        wait("frames after the restart", || {
            traffic.send();
            for frame in tap.burst() {
                assert_eq!(frame.kind, Kind::Own);
                tap.lend_own(&[frame.id]);
                frames += 1;
            }
            frames > 100
        });
        assert!(guest.is_filled(0xcd));
        drop((region, guest));
        assert!(is_gone.load(Ordering::SeqCst));
    });
}

#[test]
fn memory_stays_mapped_while_a_device_has_buffers_in_it() {
    in_a_namespace(|| {
        let dpdk = start();
        let mut tap = Port::started(&dpdk, "net_tap0,iface=dtap0");
        let guest = Memory::new(256, GUEST_SIZE);
        let is_gone = guest.is_gone();
        let region = guest.share(&tap.device);
        let mut traffic = Traffic::start(&dpdk);
        tap.lend(&guest, 0..128);
        wait("the tap to have a guest's buffer", || {
            traffic.send();
            tap.burst();
            tap.receive.out().guest_at_device > 0
        });
        // The guest goes without having waited.
        drop((region, guest));
        assert!(!is_gone.load(Ordering::SeqCst));
        for _ in 0..100 {
            traffic.send();
            for frame in tap.burst() {
                if frame.kind == Kind::Own {
                    tap.lend_own(&[frame.id]);
                }
            }
        }
        tap.device.close();
        assert!(is_gone.load(Ordering::SeqCst));
    });
}

#[test]
fn halves_return_nothing_after_the_device_is_gone() {
    alone(|| {
        let dpdk = start();
        let mut port = Port::started(&dpdk, "net_null0");
        let guest = Memory::new(16, GUEST_SIZE);
        let _region = guest.share(&port.device);
        port.lend(&guest, 0..4);
        port.device.stop().unwrap();
        assert!(port.burst().is_empty());
        port.device.start().unwrap();
        wait("frames after a restart", || !port.burst().is_empty());
        port.lend(&guest, 4..8);
        port.device.close();
        assert!(port.burst().is_empty());
        assert_eq!(port.transmit.send(&[ToSend::new(guest.addr(0), 64, 0)]), 0);
        assert!(!port.receive.arm() && !port.transmit.clean());
        let mut ids = Vec::new();
        port.receive.reclaim(Kind::Guest, &mut ids);
        assert_eq!(ids, [4, 5, 6, 7]);
        let loan = dpdk::Loan::new(guest.addr(0), GUEST_SIZE as u32, 12, 0);
        assert_eq!(port.receive.lend(Kind::Guest, &[loan]), 0);
        let said = port.device.start().err().unwrap().to_string();
        assert!(said.contains("is closed"), "{said}");
        assert!(!port.device.link().up);
    });
}

#[test]
fn a_device_is_stopped_and_set_up_again_while_its_worker_asks_it() {
    alone(|| {
        let dpdk = start();
        let Port { mut receive, mut transmit, own, own_region, mut device, .. } = Port::started(&dpdk, "net_null0");
        for _ in 0..20 {
            let ends = AtomicBool::new(false);
            let own = &own;
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut records = [dpdk::Frame::default(); 64];
                    let mut ids = [0; 64];
                    while !ends.load(Ordering::Relaxed) {
                        let count = receive.burst(&mut records, usize::MAX);
                        let lend =
                            |frame: &dpdk::Frame| dpdk::Loan::new(own.addr(frame.id), own.size as u32, 128, frame.id);
                        let loans: Vec<_> = records[..count].iter().map(lend).collect();
                        receive.lend(Kind::Own, &loans);
                        transmit.send(&[ToSend::new(own.addr(1000), 64, 1)]);
                        transmit.done(&mut ids);
                    }
                });
                for _ in 0..10 {
                    device.stop().unwrap();
                    device.start().unwrap();
                }
                device.reattach().unwrap();
                ends.store(true, Ordering::Relaxed);
            });
            (receive, transmit) = device.open(&CONFIG).unwrap().pop().unwrap();
            let lend = |id: u32| dpdk::Loan::new(own.addr(id), own.size as u32, 128, id);
            let loans: Vec<_> = (0..receive.reserve() as u32).map(lend).collect();
            assert_eq!(receive.lend(Kind::Own, &loans), loans.len());
            device.start().unwrap();
        }
        drop(own_region);
    });
}

#[test]
fn a_device_that_comes_and_goes_leaves_no_files_and_mappings() {
    in_a_namespace(|| {
        let dpdk = start();
        let guest = Memory::new(16, GUEST_SIZE);
        for (device, config) in [("net_null0", CONFIG), ("net_tap0,iface=dtap0", Config { interrupts: true, ..CONFIG })]
        {
            let mut counts = Vec::new();
            for _ in 0..40 {
                let mut port = Port::open(&dpdk, device, &config);
                port.device.start().unwrap();
                let _region = guest.share(&port.device);
                port.lend(&guest, 0..8);
                port.burst();
                drop(port);
                let entries = |path: &str| std::fs::read_dir(path).unwrap().count();
                counts.push((entries("/proc/self/fd"), entries("/proc/self/map_files")));
            }
            let (files, maps): (Vec<_>, Vec<_>) = counts.into_iter().unzip();
            assert_eq!(files[39], files[5], "files of {device}: {files:?}");
            assert!(maps[39] <= maps[5] + 8, "mappings of {device}: {maps:?}");
        }
    });
}
