//! A Linux machine whose buffers an interface of the host receives into.

use e2e::guest::{self, Kernel, Nic, Vm};
use e2e::mapped::one_wire;
use e2e::wire::{Cable, wan};
use e2e::{Home, Millrace, transfer, wait_for};
use lab::Result;
use lab::process::Daemon;

/// Size of the files to move.
const FILE: usize = 2 << 20;

/// Address of a machine that comes back.
const MAC: &str = "52:54:00:0e:ff:01";

#[test]
fn a_machine_talks_and_its_frames_are_in_place() -> Result<()> {
    let kernel = Kernel::prepare()?;
    for packed in [false, true] {
        let (cable, home) = (Cable::new()?, Home::new());
        cable.there.run("ip", &["address", "add", "192.0.2.1/24", "dev", "up1"])?;
        let millrace = cable.switch(&home, wan(), (one_wire(), e2e::poller()));
        let nic = Nic::new(home.socket("fw"));
        let vm = Vm::builder("a").nic(if packed { nic.packed() } else { nic }).spawn(&kernel)?;
        vm.wait_ready(guest::READY)?;
        vm.set_address("eth0", "192.0.2.2/24")?;
        millrace.wait_mapped();
        for size in ["56", "1472"] {
            cable.there.run("ping", &["-c", "5", "-i", "0.2", "-W", "2", "-M", "do", "-s", size, "192.0.2.2"])?;
        }
        assert_eq!(vm.ping("192.0.2.1", 5)?.received, 5);
        transfer::move_both_ways(&cable.there, &vm, ["192.0.2.1", "192.0.2.2"], FILE, &home)?;
        let mapping = millrace.mapping();
        let frames = (FILE / 1448) as u64;
        assert!(mapping.in_place > frames && mapping.copied == 0 && mapping.sent_in_place > frames / 2, "{mapping:?}");
        let said = millrace.ctl("mappings");
        let line: Vec<&str> = said.lines().nth(1).unwrap_or_default().split_whitespace().collect();
        assert_eq!(line.get(..5), Some(&["wan.0", "fw.0", "pass-through", "file", "zero-copy"][..]), "{said}");
        vm.power_off(e2e::SOON)?;
        millrace.wait_down("fw");
        let said = millrace.ctl("mappings");
        assert!(said.contains("no guest has started queue 0"), "{said}");
        millrace.stop();
    }
    Ok(())
}

/// The machine is killed, or its driver leaves the device, while the far end keeps sending to it.
#[test]
fn a_machine_comes_back_while_frames_keep_coming() -> Result<()> {
    let kernel = Kernel::prepare()?;
    let (cable, home) = (Cable::new()?, Home::new());
    cable.there.run("ip", &["address", "add", "192.0.2.1/24", "dev", "up1"])?;
    // Without this, the far end would ask for the machine's address before it sends anything else.
    cable.there.run("ip", &["neighbour", "add", "192.0.2.2", "lladdr", MAC, "dev", "up1", "nud", "permanent"])?;
    let millrace = cable.switch(&home, wan(), (one_wire(), e2e::poller()));
    let mut sends = cable.there.command("ping");
    sends.args(["-q", "-i", "0.005", "-s", "1400", "192.0.2.2"]);
    let mut sends = Daemon::spawn("ping", sends)?;
    for packed in [true, false] {
        let nic = Nic::new(home.socket("fw")).mac(MAC);
        let vm = Vm::builder("a").nic(if packed { nic.packed() } else { nic }).spawn(&kernel)?;
        vm.wait_ready(guest::READY)?;
        vm.set_address("eth0", "192.0.2.2/24")?;
        it_answers(&cable, &vm, &millrace)?;
        // The session stays; its queues end and start again.
        let device = vm.check("basename $(readlink /sys/class/net/eth0/device)")?;
        vm.check(&format!("echo {device} >/sys/bus/virtio/drivers/virtio_net/unbind"))?;
        frames_go_nowhere(&millrace);
        vm.check(&format!("echo {device} >/sys/bus/virtio/drivers/virtio_net/bind"))?;
        vm.set_address("eth0", "192.0.2.2/24")?;
        it_answers(&cable, &vm, &millrace)?;
        transfer::move_both_ways(&cable.there, &vm, ["192.0.2.1", "192.0.2.2"], FILE, &home)?;
        vm.daemon().kill()?;
        drop(vm);
        millrace.wait_gone("fw");
        frames_go_nowhere(&millrace);
    }
    sends.check("sending all the time")?;
    millrace.stop();
    Ok(())
}

/// Waits until the machine's buffers are lent, and checks that frames pass in place, both ways. A slow machine may lose some.
fn it_answers(cable: &Cable, vm: &Vm, millrace: &Millrace) -> Result<()> {
    millrace.wait_mapped();
    let before = millrace.mapping();
    cable.there.run("ping", &["-c", "10", "-i", "0.1", "-W", "10", "-s", "1000", "192.0.2.2"])?;
    vm.ping_until("192.0.2.1", 5)?;
    let now = millrace.mapping();
    assert!(now.zero_copy && now.in_place >= before.in_place + 15, "{now:?}");
    assert!(now.sent_in_place >= before.sent_in_place + 10, "{now:?}");
    Ok(())
}

/// Waits until frames that arrive for the machine are dropped, and checks the state of the mapping.
fn frames_go_nowhere(millrace: &Millrace) {
    wait_for("the mapping to end", || (!millrace.mapping().zero_copy).then_some(()));
    let said = millrace.ctl("mappings");
    assert!(said.contains("no guest has started queue 0"), "{said}");
    let (received, before) = (millrace.port("wan").rx(), millrace.mapping());
    wait_for("frames for nobody", || (millrace.port("wan").rx() > received + 20).then_some(()));
    let now = millrace.mapping();
    assert_eq!((now.in_place, now.on_loan), (before.in_place, 0), "{now:?}");
}
