//! AF_XDP in zero-copy mode, which only virtio_net of a recent Linux supports without hardware.
//!
//! The switch, and the guest whose buffers it receives into, run in a virtual machine. Frames reach the machine's NIC over its
//! link, the guest sends them back, and this test checks them. No kernel for Debian 12 supports this (the `virtio_net` of
//! Linux 6.12 refuses, and frames are copied), so it uses one from the backports to Debian 13.

use e2e::echoed::Echoed;
use e2e::guest::{self, Kernel, Model, Nic, Socket, Vm};
use e2e::mapped::one_wire;
use e2e::{Home, SOON, VmSwitch, wait_for};
use engine::stats::MappingStats;
use lab::Result;
use lab::millrace::config::*;

/// Frames per guest.
const FRAMES: u64 = 600;

/// Queue sizes of a guest, and of one whose buffers are all in use all the time.
const SIZE: u16 = 256;
const FEW: u16 = 8;

const SIZES: std::ops::RangeInclusive<usize> = 60..=1514;

fn config(between: impl Part, idle: Idle) -> RawFile {
    let wan = AfXdp { interface: "eth0".into(), mode: MoverKey::ZeroCopy.into(), ..AfXdp::default() };
    let worker = RawWorker { idle: idle.into(), ..RawWorker::default() };
    file((port("wan", wan), vhost_user("fw"), between, worker))
}

/// Starts the switch in the machine.
fn start(vm: &Vm, between: impl Part, idle: Idle) -> Result<VmSwitch<'_>> {
    let switch = VmSwitch::start(vm, config(between, idle))?;
    wait_for("the port", || switch.ctl("ports").ok()?.contains("zero-copy, native XDP").then_some(()));
    Ok(switch)
}

/// Reports whether a guest is connected and everything that can be mapped is.
fn has(switch: &VmSwitch, format: &str) -> bool {
    let waits = |mapping: &MappingStats| mapping.reason.as_ref().is_some_and(|reason| reason.contains("no guest"));
    let ports = switch.ctl("ports").expect("the switch answers");
    let mappings = switch.mappings().expect("the switch answers");
    ports.contains(format) && ports.contains("1 pair") && !mappings.iter().any(waits)
}

/// Runs a guest that sends everything back, and then stops it.
fn serve(vm: &Vm, switch: &VmSwitch, format: &str, size: u16, far: &mut Echoed) -> Result<()> {
    let echo = vm.start(&format!("exec e2e-echo /tmp/m/fw.sock {format} {size}"))?;
    wait_for("the guest", || has(switch, format).then_some(()));
    far.exchange(FRAMES)?;
    vm.kill(&echo)?;
    vm.finish(echo, SOON).map(drop)
}

fn stop(switch: VmSwitch) -> Result<()> {
    assert!(switch.ctl("drops")?.contains("No frames were dropped"));
    switch.stop()
}

/// Boots a virtual machine with such an interface; returns it with the far end of its link.
fn machine(home: &Home) -> Result<(Vm, Echoed)> {
    let kernel = Kernel::prepare_recent()?;
    let socket = Socket::bind(home.path("far"))?;
    let vm = Vm::builder("switch")
        .nic(Nic::emulated(Model::Virtio, home.path("far")))
        .program(e2e::program())
        .program(e2e::companion("e2e-echo"))
        .memory_mib(512)
        .processors(2)
        .spawn(&kernel)?;
    vm.wait_ready(guest::READY)?;
    println!("{}", kernel.name());
    Ok((vm, Echoed::new(socket.accept()?, 2, SIZES)))
}

#[test]
#[ignore = "downloads a kernel of another Debian; see CONTRIBUTING.md"]
fn guests_that_come_and_go_get_every_frame_in_place() -> Result<()> {
    let home = Home::new();
    let (vm, mut far) = machine(&home)?;
    // A worker that notifies the driver only when it must, and one that sleeps.
    for idle in [Idle::Poll, Idle::Sleep] {
        let switch = start(&vm, patch("wan", "fw"), idle)?;
        serve(&vm, &switch, "split", SIZE, &mut far)?;
        stop(switch)?;
        let switch = start(&vm, one_wire(), idle)?;
        // On huge pages all buffers can be lent to the driver, otherwise only those within one page. A worker that sleeps also
        // receives into its own buffers, and drops frames that the guest has no buffer for.
        let few = if idle == Idle::Poll { FEW } else { SIZE };
        for (format, size, huge) in
            [("split", SIZE, true), ("packed", SIZE, true), ("packed", SIZE, false), ("split", few, true)]
        {
            vm.check(&format!("echo {} >/proc/sys/vm/nr_hugepages", if huge { 8 } else { 0 }))?;
            let before = switch.mappings()?.remove(0);
            serve(&vm, &switch, format, size, &mut far)?;
            let after =
                wait_for("the mapping to end", || switch.mappings().ok()?.pop().filter(|mapping| !mapping.zero_copy));
            println!("{idle:?}, {format}, {size} buffers, huge pages: {huge}: {after:?}");
            let in_place = after.in_place - before.in_place;
            assert_eq!(in_place + after.copied - before.copied, FRAMES);
            if huge && idle == Idle::Poll {
                assert_eq!(in_place, FRAMES, "a worker that polls has no need of buffers of its own");
            }
            assert!(!huge || after.sent_in_place > before.sent_in_place + FRAMES / 2);
        }
        stop(switch)?;
    }
    vm.power_off(SOON)
}
