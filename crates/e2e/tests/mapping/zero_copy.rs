//! AF_XDP in zero-copy mode, which only virtio_net of a recent Linux supports without hardware.
//!
//! The switch, and the guest whose buffers it receives into, run in a virtual machine. Frames reach the machine's NIC as
//! datagrams, the guest sends them back, and this test checks them. No kernel for Debian 12 supports this (the `virtio_net` of
//! Linux 6.12 refuses, and frames are copied), so it uses one from the backports to Debian 13.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use e2e::guest::{self, Job, Kernel, Nic, Vm};
use e2e::mapped::one_wire;
use e2e::virtio::{Sink, Source};
use e2e::{Home, SOON, wait_for};
use engine::stats::MappingStats;
use lab::millrace::config::*;
use lab::{Error, Result};

/// Frames per guest, and the maximum number in flight.
const FRAMES: u64 = 600;
const WINDOW: u64 = 64;

/// Queue sizes of a guest, and of one whose buffers are all in use all the time.
const SIZE: u16 = 256;
const FEW: u16 = 8;

const SIZES: std::ops::RangeInclusive<usize> = 60..=1514;

fn config(between: impl Part, idle: Idle) -> RawFile {
    let wan = AfXdp { interface: "eth0".into(), mode: MoverKey::ZeroCopy.into(), ..AfXdp::default() };
    let fw = VhostUser { socket: "/tmp/fw.sock".into(), ..VhostUser::default() };
    let worker = RawWorker { idle: idle.into(), ..RawWorker::default() };
    let control = RawControl { socket: "/tmp/control".into() };
    file((port("wan", wan), port("fw", fw), between, worker, control))
}

/// The switch in the machine, until it is stopped.
struct VmSwitch<'v> {
    vm: &'v Vm,
    job: Job,
}

impl<'v> VmSwitch<'v> {
    fn start(vm: &'v Vm, between: impl Part, idle: Idle) -> Result<VmSwitch<'v>> {
        let config = config(between, idle).text();
        vm.check(&format!("cat >/tmp/m.toml <<'end'\n{config}\nend"))?;
        let job = vm.start("exec millrace run --config /tmp/m.toml")?;
        let switch = VmSwitch { vm, job };
        wait_for("the port", || switch.ctl("ports").ok()?.contains("zero-copy, native XDP").then_some(()));
        Ok(switch)
    }

    fn ctl(&self, command: &str) -> Result<String> {
        self.vm.check(&format!("millrace ctl --socket /tmp/control {command}"))
    }

    fn mappings(&self) -> Vec<MappingStats> {
        serde_json::from_str(&self.ctl("--json mappings").expect("the switch answers")).expect("JSON")
    }

    /// Returns the only mapping.
    fn mapping(&self) -> MappingStats {
        self.mappings().remove(0)
    }

    /// Reports whether a guest is connected and everything that can be mapped is.
    fn has(&self, format: &str) -> bool {
        let waits = |mapping: &MappingStats| mapping.reason.as_ref().is_some_and(|reason| reason.contains("no guest"));
        let ports = self.ctl("ports").expect("the switch answers");
        ports.contains(format) && ports.contains("1 pair") && !self.mappings().iter().any(waits)
    }

    /// Runs a guest that sends everything back, and then stops it.
    fn serve(&self, format: &str, size: u16, far: &UnixDatagram, near: &Path) -> Result<()> {
        let echo = self.vm.start(&format!("exec e2e-echo /tmp/fw.sock {format} {size}"))?;
        wait_for("the guest", || self.has(format).then_some(()));
        if let Err(error) = exchange(far, near) {
            panic!("{error}; {}\n{}", self.ctl("mappings")?, self.ctl("drops")?);
        }
        self.vm.kill(&echo)?;
        self.vm.finish(echo, SOON).map(drop)
    }

    fn stop(self) -> Result<()> {
        assert!(self.ctl("drops")?.contains("No frames were dropped"));
        self.vm.kill(&self.job)?;
        self.vm.finish(self.job, SOON).map(drop)
    }
}

/// Sends frames to the machine's NIC and takes them back.
fn exchange(far: &UnixDatagram, near: &Path) -> Result<()> {
    let (mut source, mut sink) = (Source::new(2, 2, SIZES), Sink::new(2, 2, SIZES));
    let mut frame = [0; 2048];
    let mut last = Instant::now();
    while sink.received() < FRAMES {
        if source.sent() < FRAMES && source.sent() - sink.received() < WINDOW {
            far.send_to(&source.make(), near).expect("QEMU takes datagrams");
        } else if let Ok(len) = far.recv(&mut frame) {
            sink.take(&frame[..len])?;
            last = Instant::now();
        }
        if last.elapsed() > SOON {
            let problem = format!("{} were sent, {} came back", source.sent(), sink.received());
            return Err(Error::Malformed { what: "the exchange of frames".into(), problem });
        }
    }
    Ok(())
}

/// Boots a virtual machine with such an interface; returns it with the sockets for frames: its own and ours.
fn machine(home: &Home) -> Result<(Vm, PathBuf, UnixDatagram)> {
    let kernel = Kernel::prepare_recent()?;
    let [near, far] = ["near", "far"].map(|name| home.path(name));
    let socket = UnixDatagram::bind(&far).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let vm = Vm::builder("switch")
        .nic(Nic::datagrams(&near, &far))
        .program(e2e::program())
        .program(e2e::companion("e2e-echo"))
        .memory_mib(512)
        .processors(2)
        .spawn(&kernel)?;
    vm.wait_ready(guest::READY)?;
    println!("{}", kernel.name());
    Ok((vm, near, socket))
}

#[test]
#[ignore = "downloads a kernel of another Debian; see CONTRIBUTING.md"]
fn guests_that_come_and_go_get_every_frame_in_place() -> Result<()> {
    let home = Home::new();
    let (vm, near, far) = machine(&home)?;
    // A worker that notifies the driver only when it must, and one that sleeps.
    for idle in [Idle::Poll, Idle::Sleep] {
        let switch = VmSwitch::start(&vm, patch("wan", "fw"), idle)?;
        switch.serve("split", SIZE, &far, &near)?;
        switch.stop()?;
        let switch = VmSwitch::start(&vm, one_wire(), idle)?;
        // On huge pages all buffers can be lent to the driver, otherwise only those within one page. A worker that sleeps also
        // receives into its own buffers, and drops frames that the guest has no buffer for.
        let few = if idle == Idle::Poll { FEW } else { SIZE };
        for (format, size, huge) in
            [("split", SIZE, true), ("packed", SIZE, true), ("packed", SIZE, false), ("split", few, true)]
        {
            vm.check(&format!("echo {} >/proc/sys/vm/nr_hugepages", if huge { 8 } else { 0 }))?;
            let before = switch.mapping();
            switch.serve(format, size, &far, &near)?;
            let after = wait_for("the mapping to end", || Some(switch.mapping()).filter(|mapping| !mapping.zero_copy));
            println!("{idle:?}, {format}, {size} buffers, huge pages: {huge}: {after:?}");
            let in_place = after.in_place - before.in_place;
            assert_eq!(in_place + after.copied - before.copied, FRAMES);
            if huge && idle == Idle::Poll {
                assert_eq!(in_place, FRAMES, "a worker that polls has no need of buffers of its own");
            }
            assert!(!huge || after.sent_in_place > before.sent_in_place + FRAMES / 2);
        }
        switch.stop()?;
    }
    vm.power_off(SOON)
}
