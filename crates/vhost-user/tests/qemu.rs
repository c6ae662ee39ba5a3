//! QEMU with the device: its firmware boots from the network, which takes a driver, queues and frames.
#![allow(missing_docs)]

mod support;

use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use support::{Bench, wait_for};
use vhost_user::Mode;

struct Qemu(Child);

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Boots a VM; `mode` is the device's.
fn boot(mode: Mode, pairs: u16) {
    let bench = Bench::new(mode, pairs);
    asks_for_an_address(&bench, "");
    bench.ended("the frontend closed the connection");
}

/// Boots a VM with these arguments of its NIC, until it sends frames. Two regions, because the memory of a PC has a hole.
fn asks_for_an_address(bench: &Bench, nic: &str) {
    let (mode, pairs) = (bench.mode, bench.pairs);
    let server = if mode == Mode::Client { ",server=on,wait=off" } else { "" };
    let mq = if pairs > 1 { ",mq=on" } else { "" };
    let qemu = Command::new("qemu-system-x86_64")
        .args(["-machine", "q35,memory-backend=m0,accel=tcg", "-m", "256", "-display", "none", "-monitor", "none"])
        .args(["-serial", "null", "-object", "memory-backend-memfd,id=m0,size=256M,share=on"])
        .args(["-chardev", &format!("socket,id=c0,path={}{server}", bench.socket.display())])
        .args(["-netdev", &format!("vhost-user,id=n0,chardev=c0,queues={pairs}")])
        .args(["-device", &format!("virtio-net-pci,netdev=n0,vectors=0,bootindex=1,disable-legacy=on{mq}{nic}")])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("qemu-system-x86_64 (Debian package qemu-system-x86) must be installed");
    let qemu = Qemu(qemu);
    wait_for("the firmware (Debian package ipxe-qemu) to ask for an address", || {
        (bench.echo.frames.load(Ordering::Relaxed) > 1).then_some(())
    });
    assert_eq!(*bench.echo.line.lock().unwrap(), "split; 1 pair, 2 regions");
    drop(qemu);
}

#[test]
fn qemu_connects() {
    boot(Mode::Server, 1);
}

#[test]
fn qemu_listens() {
    boot(Mode::Client, 1);
}

#[test]
fn qemu_with_two_pairs_connects() {
    boot(Mode::Server, 2);
}

#[test]
fn qemu_with_32_pairs_and_an_mtu_connects() {
    let bench = Bench::with_mtu(Mode::Server, 32, Some(9000));
    asks_for_an_address(&bench, ",host_mtu=9000");
    assert_eq!(bench.echo.wait_disconnected(), "the frontend closed the connection");
}
