//! Devices, options and calls that the crate refuses, each with the reason.

use crate::process::{alone, in_a_namespace};
use crate::rig::{CONFIG, Port, plugin, start};
use dpdk::{Error, Options, Plugin};
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::process::Command;

#[test]
fn a_missing_plugin_names_the_package_and_the_command() {
    let said = Plugin::open("/nowhere/libmillrace_dpdk.so".as_ref()).err().unwrap().to_string();
    assert!(said.contains("libdpdk-dev") && said.contains("make -C dpdk/port"), "{said}");
}

#[test]
fn a_library_that_is_no_plugin_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("text.so");
    std::fs::write(&file, "text").unwrap();
    let error = Plugin::open(&file).err().unwrap();
    assert!(matches!(error, Error::Load { .. }), "{error}");
}

#[test]
fn a_plugin_for_another_version_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (source, library) = (directory.path().join("old.c"), directory.path().join("old.so"));
    std::fs::write(&source, "static const unsigned old[] = {77}; const void *millrace_dpdk(void) { return old; }")
        .unwrap();
    let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap();
    assert!(made.success());
    let said = Plugin::open(&library).err().unwrap().to_string();
    assert!(said.contains("version 77") && said.contains("make -C dpdk/port"), "{said}");
}

#[test]
fn dpdk_starts_once_and_leaves_the_thread_its_processors() {
    alone(|| {
        let before = rustix::thread::sched_getaffinity(None).unwrap();
        let dpdk = start();
        assert!(rustix::thread::sched_getaffinity(None).unwrap() == before);
        assert!(dpdk.version().starts_with("DPDK "), "{}", dpdk.version());
        let options = Options { devices: Vec::new(), memory: 0, huge_pages: false };
        let error = Plugin::open(&plugin()).unwrap().start(&options).err().unwrap();
        assert!(matches!(error, Error::Started), "{error}");
    });
}

#[test]
fn a_device_is_there_once_and_comes_again() {
    alone(|| {
        let dpdk = start();
        let first = dpdk.probe("net_null0").unwrap();
        let error = dpdk.probe("net_null0").err().unwrap();
        assert!(matches!(error, Error::Busy { .. }), "{error}");
        drop(first);
        let again = dpdk.probe("net_null0").unwrap();
        assert_eq!((again.info().driver.as_str(), again.info().refusal.as_deref()), ("net_null", None));
        let error = dpdk.probe("net_nothing0").err().unwrap().to_string();
        assert!(error.contains("net_nothing0") && error.contains("DPDK says"), "{error}");
    });
}

/// Answers a driver's questions over vhost-user as a backend without features would, until it hangs up.
fn answer(listener: UnixListener) -> std::io::Result<()> {
    let (mut socket, _) = listener.accept()?;
    loop {
        // A request, flags, and a length; in the machine's order of bytes.
        let mut header = [0; 12];
        socket.read_exact(&mut header)?;
        let [request, _, len] = [0, 4, 8].map(|at| u32::from_ne_bytes(header[at..at + 4].try_into().unwrap()));
        socket.read_exact(&mut vec![0; len as usize])?;
        // GET_FEATURES, GET_VRING_BASE, GET_PROTOCOL_FEATURES, GET_QUEUE_NUM: bit 32 is VIRTIO_F_VERSION_1.
        if [1, 11, 15, 17].contains(&request) {
            socket.write_all(&[request, 5, 8, 0, 1].map(u32::to_ne_bytes).concat())?;
        }
    }
}

#[test]
fn drivers_with_memory_of_their_own_are_refused_with_what_to_use_instead() {
    in_a_namespace(|| {
        let dpdk = start();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sock");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(|| answer(listener));
        let user = format!("net_virtio_user0,path={}", path.display());
        for (device, reason) in [("net_af_xdp0,iface=lo", "\"af_xdp\""), (user.as_str(), "\"virtio-user\"")] {
            let mut device = dpdk.probe(device).unwrap();
            let said = device.open(&CONFIG).err().unwrap().to_string();
            assert!(said.contains(reason), "{said}");
        }
    });
}

#[test]
fn what_a_device_can_not_do_is_said() {
    alone(|| {
        let dpdk = start();
        let port = Port::started(&dpdk, "net_ring0");
        let said = port.device.steer([2, 0, 0, 0, 0, 1], 0).err().unwrap().to_string();
        assert!(said.contains("net_ring0 can't steer"), "{said}");
        let why = port.device.info().own_only.clone().unwrap();
        assert!(why.contains("stay in the memory of their sender"), "{why}");
        let mut other = dpdk.probe("net_null0").unwrap();
        let long = dpdk::Config { mtu: Some(9000), ..CONFIG };
        let said = other.open(&long).err().unwrap().to_string();
        assert!(said.contains("an MTU of 9000 needs buffers of 9022 bytes, and they have 2048"), "{said}");
    });
}
