//! Frames that the program redirects, and frames that it leaves to the kernel.

mod common;

use std::thread;
use std::time::Duration;

use common::{Netns, PacketSocket, Station, TO, frame, frame_to, interface, redirect, steering, wait_for};
use xsk::{Attach, Groups, Redirect, RedirectConfig, Steering};

const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 0x99];
const MULTICAST: [u8; 6] = [0x01, 0, 0x5e, 0, 0, 1];
const BROADCAST: [u8; 6] = [0xff; 6];

/// Sends a frame to each address and returns those that arrived at the socket. The rest arrived at the kernel.
fn taken(b: &mut Station, from: &PacketSocket, at: &PacketSocket, all: &[[u8; 6]]) -> Vec<[u8; 6]> {
    let mut taken = Vec::new();
    for &mac in all {
        b.fill_pool(1);
        let sent = frame_to(mac, 100);
        from.send(&sent);
        let passed = wait_for("frame", || {
            let passed = at.receive().map(|passed| (true, passed));
            passed.or_else(|| {
                let descriptor = b.queue.rx.burst(1).next()?;
                Some((false, b.bytes(descriptor)))
            })
        });
        assert_eq!(passed.1, sent);
        if !passed.0 {
            taken.push(mac);
        }
    }
    taken
}

#[test]
fn only_chosen_destinations_are_taken() {
    for attach in [Attach::Native, Attach::Generic] {
        Netns::with_veth(1500).run(|| {
            let all = [TO, OTHER, MULTICAST, BROADCAST];
            let choice = |macs: &[[u8; 6]], groups| steering(macs, groups);
            let config =
                RedirectConfig { attach, steering: choice(&[TO], Groups::Broadcast), ..RedirectConfig::default() };
            let redirect = Redirect::attach(&interface("b"), &config).unwrap();
            let mut b = Station::pool("b", 0);
            redirect.insert(&b.queue.rx).unwrap();
            let (from, at) = (PacketSocket::open("a"), PacketSocket::open("b"));
            assert_eq!(taken(&mut b, &from, &at, &all), [TO, BROADCAST], "{attach:?}");
            // The choice may change while attached.
            for (choice, expected) in [
                (choice(&[OTHER, MULTICAST], Groups::None), vec![OTHER, MULTICAST]),
                (choice(&[TO], Groups::All), vec![TO, MULTICAST, BROADCAST]),
                (choice(&[], Groups::None), vec![]),
                (Steering::All, all.to_vec()),
            ] {
                redirect.steer(&choice).unwrap();
                assert_eq!(taken(&mut b, &from, &at, &all), expected, "{attach:?} {choice:?}");
            }
        });
    }
}

#[test]
fn frames_without_a_socket_go_to_the_kernel() {
    Netns::with_veth(1500).run(|| {
        let redirect = redirect("b", Attach::Native);
        let (from, at) = (PacketSocket::open("a"), PacketSocket::open("b"));
        let mut b = Station::pool("b", 0);
        assert_eq!(taken(&mut b, &from, &at, &[TO]), [[0; 6]; 0], "not inserted");
        redirect.insert(&b.queue.rx).unwrap();
        assert_eq!(taken(&mut b, &from, &at, &[TO]), [TO]);
        redirect.remove(0).unwrap();
        assert_eq!(taken(&mut b, &from, &at, &[TO]), [[0; 6]; 0], "removed");
        redirect.remove(0).unwrap();
        redirect.remove(7).unwrap();
        redirect.insert(&b.queue.rx).unwrap();
        drop(b);
        // Until the kernel has taken a closed socket out of its map, it drops what is for it.
        let passed = wait_for("frame", || {
            from.send(&frame(60, 5));
            at.receive()
        });
        assert_eq!(passed, frame(60, 5), "closed");
    });
}

#[test]
fn the_program_goes_with_its_owner() {
    Netns::with_veth(1500).run(|| {
        for attach in [Attach::Native, Attach::Generic, Attach::Auto] {
            // A second program would be refused if the first had stayed.
            drop(redirect("b", attach));
        }
        let (from, at) = (PacketSocket::open("a"), PacketSocket::open("b"));
        let mut b = Station::pool("b", 0);
        b.fill_pool(8);
        {
            let redirect = redirect("b", Attach::Native);
            redirect.insert(&b.queue.rx).unwrap();
        }
        from.send(&frame(60, 1));
        assert_eq!(wait_for("frame", || at.receive()), frame(60, 1));
        thread::sleep(Duration::from_millis(5));
        assert_eq!(b.queue.rx.waiting(), 0);
    });
}
