//! Real interfaces: cables and taps of the kernel.

use crate::memory::Memory;
use crate::process::{alone, in_a_namespace};
use crate::rig::{CONFIG, GUEST_SIZE, Port, frame, number, once, start, wait};
use dpdk::{Config, Dpdk, Kind, ToSend};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashSet;
use std::process::Command;

fn ip(words: &str) {
    assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success(), "ip {words}");
}

/// Returns the two ends of a cable.
pub fn cable(dpdk: &Dpdk) -> (Port, Port) {
    ip("link add here type veth peer name there");
    ip("link set here up");
    ip("link set there up");
    (Port::started(dpdk, "net_af_packet0,iface=here"), Port::started(dpdk, "net_af_packet1,iface=there"))
}

/// Sends frames from one port to the other, into a guest's buffers, which go round. Checks each byte. `at` is called for each frame.
pub fn pass(from: &mut Port, to: &mut Port, guest: &Memory, count: u32, mut at: impl FnMut(&mut Port, u32)) {
    let source = Memory::new(64, 2048);
    let _region = source.share(&from.device);
    from.register();
    to.lend(guest, 1..49);
    let (mut sent, mut next) = (0, 0);
    let mut free: Vec<u32> = (0..64).collect();
    wait("all frames", || {
        // No more than its buffers hold are on their way.
        while let Some(id) = free.pop_if(|_| sent < count && sent - next < 32) {
            let bytes = frame(sent, 60 + sent as usize * 37 % 1440);
            source.write(source.addr(id), &bytes);
            from.send(&[ToSend::new(source.addr(id), bytes.len() as u16, id)]);
            sent += 1;
        }
        free.extend(from.done());
        for received in to.burst() {
            let memory = if received.kind == Kind::Guest { guest } else { &to.own };
            let found = number(&memory.read(received.addr, received.len));
            if let Some(found) = found {
                assert_eq!(found, next);
                next += 1;
                at(to, found);
            }
            match received.kind {
                Kind::Guest => to.lend(guest, [received.id]),
                Kind::Own => to.lend_own(&[received.id]),
            }
        }
        next == count
    });
}

#[test]
fn frames_pass_a_cable_between_two_devices() {
    in_a_namespace(|| {
        let dpdk = start();
        let (mut here, mut there) = cable(&dpdk);
        let guest = Memory::new(64, GUEST_SIZE);
        let region = guest.share(&there.device);
        pass(&mut here, &mut there, &guest, 3000, |_, _| {});
        assert!(there.device.link().up);
        assert!(there.device.stats().received >= 3000);
        assert!(here.device.stats().sent >= 3000);
        // It holds none when it is idle, and nothing is written once they are back.
        let back = there.reclaimed();
        assert_eq!((back.len(), there.receive.out().guest), (48, 0));
        guest.fill(0xcd);
        let source = Memory::new(1, 4096);
        let _source = source.share(&here.device);
        source.write(source.addr(0), &frame(1, 1000));
        here.send(&[ToSend::new(source.addr(0), 1000, 0)]);
        wait("a frame in an own buffer", || there.burst().iter().any(|received| received.kind == Kind::Own));
        drop(region);
        assert!(guest.is_filled(0xcd));
    });
}

#[test]
fn frames_pass_a_memif() {
    alone(|| {
        let dpdk = start();
        let directory = tempfile::tempdir().unwrap();
        let socket = format!("socket-abstract=no,socket={}", directory.path().join("sock").display());
        let mut server = Port::started(&dpdk, &format!("net_memif0,role=server,{socket}"));
        let mut client = Port::started(&dpdk, &format!("net_memif1,role=client,{socket}"));
        wait("the connection", || server.device.link().up && client.device.link().up);
        // The client brings the server's buffers, when it receives.
        client.burst();
        let guests = [Memory::new(64, GUEST_SIZE), Memory::new(64, GUEST_SIZE)];
        let _regions = [guests[0].share(&client.device), guests[1].share(&server.device)];
        pass(&mut server, &mut client, &guests[0], 1000, |_, _| {});
        pass(&mut client, &mut server, &guests[1], 1000, |_, _| {});
    });
}

#[test]
fn memory_is_plugged_in_while_frames_pass() {
    in_a_namespace(|| {
        let dpdk = start();
        let (mut here, mut there) = cable(&dpdk);
        let guest = Memory::new(64, GUEST_SIZE);
        let _region = guest.share(&there.device);
        let second = Memory::new(64, GUEST_SIZE);
        let mut region = None;
        pass(&mut here, &mut there, &guest, 2000, |port, number| match number {
            500 => region = Some(second.share(&port.device)),
            1500 => region = None,
            _ => {}
        });
    });
}

#[test]
fn frames_pass_a_tap_and_are_announced() {
    in_a_namespace(|| {
        let dpdk = start();
        let mut tap = Port::open(&dpdk, "net_tap0,iface=dtap0", &Config { interrupts: true, ..CONFIG });
        assert!(tap.receive.event().is_none());
        tap.device.start().unwrap();
        let mut kernel = Port::started(&dpdk, "net_af_packet0,iface=dtap0");
        let guest = Memory::new(64, GUEST_SIZE);
        let _region = guest.share(&tap.device);
        pass(&mut kernel, &mut tap, &guest, 1000, |_, _| {});

        while !tap.burst().is_empty() {}
        assert!(tap.receive.arm(), "nothing is there");
        let is_ready = |tap: &Port, limit: i64| {
            let event = tap.receive.event().expect("it announces frames");
            let limit = Timespec { tv_sec: limit, tv_nsec: 0 };
            poll(&mut [PollFd::new(&event, PollFlags::IN)], Some(&limit)).unwrap() > 0
        };
        assert!(!is_ready(&tap, 0));
        let source = Memory::new(1, 4096);
        let _source = source.share(&kernel.device);
        source.write(source.addr(0), &frame(1, 100));
        kernel.send(&[ToSend::new(source.addr(0), 100, 0)]);
        assert!(is_ready(&tap, 60));
        tap.receive.disarm();
        wait("the frame", || !tap.burst().is_empty());
        assert!(tap.receive.arm());
        assert!(!is_ready(&tap, 0));
    });
}

#[test]
fn a_tap_writes_nothing_beyond_a_short_buffer() {
    in_a_namespace(|| {
        let dpdk = start();
        let mut tap = Port::started(&dpdk, "net_tap0,iface=dtap0");
        let mut kernel = Port::started(&dpdk, "net_af_packet0,iface=dtap0");
        // Every other one of buffers of 512 bytes, side by side in the guest's memory.
        let guest = Memory::new(64, 512);
        let _region = guest.share(&tap.device);
        guest.fill(0xcd);
        tap.lend(&guest, (0..40).step_by(2));
        let source = Memory::new(2, 4096);
        let _source = source.share(&kernel.device);
        source.write(source.addr(0), &frame(1, 1400));
        source.write(source.addr(1), &frame(2, 400));
        let mut seen = HashSet::new();
        wait("all buffers", || {
            // The long one does not fit a guest's buffer, and is dropped there.
            kernel.send(&[ToSend::new(source.addr(0), 1400, 0), ToSend::new(source.addr(1), 400, 1)]);
            kernel.done();
            for received in tap.burst() {
                match received.kind {
                    Kind::Own => tap.lend_own(&[received.id]),
                    Kind::Guest => {
                        once(&mut seen, received.id);
                        assert_eq!(number(&guest.read(received.addr, received.len)), Some(2));
                    }
                }
            }
            // The tap keeps one.
            seen.len() == 19
        });
        for odd in (1..40).step_by(2) {
            assert!(guest.read(guest.addr(odd), 512).iter().all(|&byte| byte == 0xcd), "buffer {odd} was written to");
        }
    });
}
