//! DPDK ports at NICs that reach memory by DMA, behind an IOMMU or without one.
//!
//! The switch, and the guests whose buffers the NICs receive into, run in a virtual machine whose programs drive its NICs. Frames reach
//! them over their links, the guests send them back, and this test checks them.

use std::time::Instant;

use e2e::echoed::{Echoed, Flowing};
use e2e::guest::{self, Job, Kernel, Model, Nic, Qemu, Socket, Vm};
use e2e::virtio::Sizes;
use e2e::{Home, SOON, VmSwitch, wait_for};
use lab::Result;
use lab::dpdk::plugin;
use lab::millrace::config::*;

/// A NIC of the machine.
#[derive(Clone, Copy)]
struct Card {
    model: Model,
    /// DPDK's name for its driver.
    driver: &'static str,
    /// Descriptors of its rings: few, as a NIC keeps its ring full. vmxnet3 has no fewer.
    queue_size: i64,
    /// Whether the driver returns sent buffers when it is told to, so that they can be a guest's.
    sends_in_place: bool,
}

const E1000: Card = Card { model: Model::E1000, driver: "net_e1000_em", queue_size: 64, sends_in_place: false };
const IGB: Card = Card { model: Model::Igb, driver: "net_e1000_igb", queue_size: 64, sends_in_place: true };
const VIRTIO: Card = Card { model: Model::Virtio, driver: "net_virtio", queue_size: 64, sends_in_place: false };
const VMXNET3: Card = Card { model: Model::Vmxnet3, driver: "net_vmxnet3", queue_size: 128, sends_in_place: false };

/// NICs of the installed QEMU.
const CARDS: [Card; 3] = [E1000, VMXNET3, VIRTIO];

/// Drivers of DPDK that the machine has.
const DRIVERS: [&str; 6] = ["bus_pci", "bus_vdev", "mempool_ring", "net_e1000", "net_virtio", "net_vmxnet3"];

const SIZES: Sizes = 60..=1514;

/// Frames that each NIC exchanges at once.
const FRAMES: u64 = 400;

/// How often the guests of all NICs die, in most tests, and after how many deaths all one-time allocations have been made.
const DEATHS: usize = 8;
const WARM: usize = 3;

/// Deaths that make fifty guests, behind all NICs.
const MANY_DEATHS: usize = 50_usize.div_ceil(CARDS.len());

/// Huge pages of the machine, of 2 MiB: DPDK's and the guests'.
const HUGE_PAGES: usize = 96;

/// How programs of the machine reach its NICs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Behind an IOMMU.
    Vfio,
    /// By addresses of the machine, which nothing guards.
    Uio,
}

/// How each NIC's port and a guest's are joined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joint {
    Copied,
    Mapped,
    /// Mapped, even if no IOMMU guards memory.
    Unguarded,
}

/// A machine with its NICs, and their PCI addresses.
struct Machine<'c> {
    vm: Vm,
    reach: Reach,
    cards: &'c [Card],
    addresses: Vec<String>,
}

impl<'c> Machine<'c> {
    /// Boots a machine with these contents; returns it with the far ends of its NICs' links.
    fn boot(home: &Home, reach: Reach, cards: &'c [Card], contents: guest::Builder) -> Result<(Self, Vec<Echoed>)> {
        let (kernel, contents, driver) = match reach {
            Reach::Vfio => (Kernel::prepare_with_vfio()?, contents.iommu(), "vfio-pci"),
            Reach::Uio => (Kernel::prepare_with_uio()?, contents, "uio_pci_generic"),
        };
        let path = |number: usize| home.path(&format!("far{number}"));
        let sockets: Vec<_> = (0..cards.len()).map(|number| Socket::bind(path(number))).collect::<Result<_>>()?;
        let mut builder = contents.memory_mib(768).processors(2);
        for (number, card) in cards.iter().enumerate() {
            builder = builder.nic(Nic::emulated(card.model, path(number)));
        }
        for driver in DRIVERS {
            builder = builder.library(plugin::installed(driver)?);
        }
        let vm = builder.spawn(&kernel)?;
        vm.wait_ready(guest::READY)?;
        vm.check(&format!("echo {HUGE_PAGES} >/proc/sys/vm/nr_hugepages"))?;
        let addresses = (0..cards.len()).map(|number| vm.bind(driver, number)).collect::<Result<_>>()?;
        let far = sockets.into_iter().zip(1..).map(|(socket, number)| Ok(Echoed::new(socket.accept()?, number, SIZES)));
        Ok((Self { vm, reach, cards, addresses }, far.collect::<Result<_>>()?))
    }

    /// Returns the switch's configuration: each NIC's port and a guest's, which are patched, or one wire. A confined switch can't learn
    /// addresses of the machine.
    fn config(&self, joint: Joint) -> RawFile {
        let confinement = (self.reach == Reach::Uio).then(unconfined);
        let parts = self.addresses.iter().zip(self.cards).enumerate().map(|(number, (address, card))| {
            let [wan, fw] = ["wan", "fw"].map(|name| format!("{name}{number}"));
            let wire = || RawMapping { copy_break: 0.into(), ..pass_through(&wan, &fw) };
            let joined = match joint {
                Joint::Copied => file(patch(&wan, &fw)),
                Joint::Mapped | Joint::Unguarded => file(wire()),
            };
            let (device, queue_size) = (address.clone().into(), card.queue_size.into());
            let unsafe_map_without_iommu = (joint == Joint::Unguarded).into();
            (
                port(&wan, Dpdk { device, queue_size, unsafe_map_without_iommu, ..Dpdk::default() }),
                vhost_user(&fw),
                joined,
            )
        });
        let devices: Vec<&str> = self.addresses.iter().map(String::as_str).collect();
        let worker = RawWorker { patience: "0s".to_owned().into(), ..backing_off() };
        file((parts.collect::<Vec<_>>(), dpdk_devices(&devices), Acceleration::Off, worker, confinement))
    }

    /// Starts a guest for each NIC, which sends back all frames.
    fn echo(&self, packed: bool) -> Result<Vec<Job>> {
        let format = if packed { "packed" } else { "split" };
        let command = |number| format!("cd /tmp/m && exec e2e-echo fw{number}.sock {format} 256");
        (0..self.cards.len()).map(|number| self.vm.start(&command(number))).collect()
    }

    fn kill(&self, guests: Vec<Job>) -> Result<()> {
        guests.iter().try_for_each(|guest| self.vm.kill(guest))?;
        guests.into_iter().try_for_each(|guest| self.vm.finish(guest, SOON).map(drop))
    }

    /// Kills the guests of all NICs while frames flow, again and again; others take their places. Checks that nothing of them is left.
    fn kill_guests(&self, deaths: usize, switch: &VmSwitch, far: Vec<Echoed>) -> Result<Vec<Echoed>> {
        let mut flows: Vec<_> = far.into_iter().map(Echoed::flow).collect();
        let mut held = Vec::new();
        for death in 0..deaths {
            let guests = self.echo(death % 2 == 0)?;
            flows.iter_mut().try_for_each(|flow| flow.wait(50))?;
            self.kill(guests)?;
            if death == WARM || death == deaths - 1 {
                held.push(self.files_at_rest(switch)?);
            }
        }
        // DPDK's driver for virtio makes an event descriptor whenever a device is attached, learns that this one has no vectors for
        // interrupts, and forgets it. Other devices leave none.
        let attached_again = self.cards.iter().filter(|card| card.model == Model::Virtio).count();
        let [before, after] = [&held[0], &held[1]].map(|files| files.lines().count());
        assert!(after <= before + attached_again * (deaths - 1 - WARM), "before:\n{}\nafter:\n{}", held[0], held[1]);
        flows.into_iter().map(Flowing::stop).collect()
    }

    /// Returns the files that the switch has when no guest is left, one a line.
    fn files_at_rest(&self, switch: &VmSwitch) -> Result<String> {
        wait_for("all mappings to end", || {
            let mappings = switch.mappings().expect("the switch answers");
            let is_over = |reason: &String| reason.contains("no guest has started");
            mappings.iter().all(|mapping| mapping.reason.as_ref().is_some_and(is_over)).then_some(())
        });
        self.vm.check("cd /proc/$(cat /tmp/m/pid)/fd && for file in *; do readlink $file; done | sort")
    }

    /// Guests receive into memory that comes and goes. One that has vmxnet3 would need more buffers, as that keeps two rings full.
    fn plug(&self, far: Vec<Echoed>) -> Result<()> {
        let fitting = self.cards.iter().enumerate().filter(|(_, card)| card.model != Model::Vmxnet3);
        let guests = fitting.zip(["split", "packed"].into_iter().cycle()).map(|((number, _), format)| {
            let arguments = format!("fw{number}.sock {format} control wan{number}.0 {}", number + 1);
            self.vm.start(&format!("cd /tmp/m && exec e2e-plugged {arguments}"))
        });
        let guests: Vec<_> = guests.collect::<Result<_>>()?;
        let fed: Vec<_> = far.into_iter().map(Echoed::feed).collect();
        for guest in guests {
            println!("{}", self.vm.checked(guest, SOON)?);
        }
        fed.into_iter().try_for_each(|feed| feed.stop().map(drop))
    }
}

/// Waits until frames come back from each guest, and then exchanges frames without a loss.
fn exchange(far: Vec<Echoed>) -> Result<Vec<Echoed>> {
    let flows: Vec<_> = far.into_iter().map(Echoed::flow).collect();
    let answered = flows.into_iter().map(|mut flow| flow.wait(1).and_then(|()| flow.stop()));
    let mut far: Vec<_> = answered.collect::<Result<_>>()?;
    std::thread::scope(|scope| {
        let all: Vec<_> = far.iter_mut().map(|far| scope.spawn(|| far.exchange(FRAMES))).collect();
        all.into_iter().try_for_each(|one| one.join().expect("it does not panic"))
    })?;
    Ok(far)
}

/// Checks that frames were received in place, and sent in place where the driver allows it.
fn look(switch: &VmSwitch, cards: &[Card]) -> Result<()> {
    println!("{}", switch.ctl("mappings")?);
    for (mapping, card) in switch.mappings()?.iter().zip(cards) {
        assert!(mapping.zero_copy && mapping.in_place > FRAMES / 2, "{mapping:?}");
        let sent = if card.sends_in_place { mapping.sent_in_place } else { mapping.sent_copied };
        assert!(sent >= FRAMES, "{mapping:?}");
    }
    Ok(())
}

/// Returns what a machine has in it: the switch, and guests.
fn contents() -> guest::Builder {
    let builder = Vm::builder("nics").program(e2e::program()).program(e2e::plugin::of_millrace());
    ["e2e-echo", "e2e-plugged"].into_iter().fold(builder, |builder, guest| builder.program(e2e::companion(guest)))
}

/// Frames go both ways, copied and mapped; guests die, and memory comes and goes.
fn everything(cards: &[Card], deaths: usize, qemu: Qemu) -> Result<()> {
    let (home, began) = (Home::new(), Instant::now());
    let (machine, mut far) = Machine::boot(&home, Reach::Vfio, cards, contents().qemu(qemu))?;
    println!("ready after {:?}", began.elapsed());

    let switch = VmSwitch::start(&machine.vm, machine.config(Joint::Copied))?;
    let guests = machine.echo(false)?;
    far = exchange(far)?;
    let ports = switch.ctl("ports")?;
    println!("copied after {:?}\n{ports}", began.elapsed());
    assert!(cards.iter().all(|card| ports.contains(card.driver)), "{ports}");
    machine.kill(guests)?;

    println!("{}", switch.reload(machine.config(Joint::Mapped))?);
    let guests = machine.echo(false)?;
    far = exchange(far)?;
    println!("mapped after {:?}", began.elapsed());
    look(&switch, cards)?;
    machine.kill(guests)?;

    far = machine.kill_guests(deaths, &switch, far)?;
    println!("{} guests killed after {:?}", deaths * cards.len(), began.elapsed());
    let guests = machine.echo(true)?;
    far = exchange(far)?;
    look(&switch, cards)?;
    machine.kill(guests)?;

    machine.plug(far)?;
    println!("plugged after {:?}\n{}", began.elapsed(), switch.ctl("drops")?);
    switch.stop()?;
    machine.vm.power_off(SOON)?;
    println!("all in {:?}", began.elapsed());
    Ok(())
}

#[test]
fn nics_receive_into_guests_by_dma() -> Result<()> {
    everything(&CARDS, DEATHS, Qemu::default())
}

#[test]
#[ignore = "takes twice as long as the same with fewer guests; see CONTRIBUTING.md"]
fn fifty_guests_die_while_nics_receive_into_them() -> Result<()> {
    everything(&CARDS, MANY_DEATHS, Qemu::default())
}

/// It also sends from guests' buffers.
#[test]
#[ignore = "downloads QEMU of the backports; see CONTRIBUTING.md"]
fn a_nic_of_a_newer_qemu_receives_and_sends_by_dma() -> Result<()> {
    everything(&[IGB], DEATHS, Qemu::prepare_backported()?)
}

/// A NIC whose memory nothing guards is mapped only if its port says so.
#[test]
#[ignore = "boots another machine; see CONTRIBUTING.md"]
fn without_an_iommu_frames_are_copied_unless_the_port_says_otherwise() -> Result<()> {
    let (home, cards) = (Home::new(), [E1000, VIRTIO]);
    let (machine, mut far) = Machine::boot(&home, Reach::Uio, &cards, contents())?;
    let switch = VmSwitch::start(&machine.vm, machine.config(Joint::Mapped))?;
    let guests = machine.echo(false)?;
    far = exchange(far)?;
    for mapping in switch.mappings()? {
        let why = mapping.reason.as_ref();
        assert!(why.is_some_and(|why| why.contains("no IOMMU guards memory")) && mapping.in_place == 0, "{mapping:?}");
    }
    machine.kill(guests)?;

    println!("{}", switch.reload(machine.config(Joint::Unguarded))?);
    let guests = machine.echo(true)?;
    exchange(far)?;
    look(&switch, &cards)?;
    machine.kill(guests)?;
    switch.stop()?;
    machine.vm.power_off(SOON)
}

/// Tells faults of the machine from faults of the switch.
#[test]
#[ignore = "DPDK's own program instead of the switch; for when the others fail"]
fn the_machine_s_nics_work_with_testpmd() -> Result<()> {
    let (home, began) = (Home::new(), Instant::now());
    let contents = Vm::builder("nics").program("/usr/bin/dpdk-testpmd");
    let (Machine { vm, addresses, .. }, far) = Machine::boot(&home, Reach::Vfio, &CARDS, contents)?;
    for ((address, mut far), card) in addresses.iter().zip(far).zip(CARDS) {
        let testpmd = vm.start(&format!(
            "sleep 1000 | dpdk-testpmd -l 0-1 --in-memory --no-telemetry -m 64 -a {address} -- \
             --forward-mode=io --port-topology=loop --total-num-mbufs=4096 >/tmp/log 2>&1"
        ))?;
        let mut flow = far.flow();
        if let Err(error) = flow.wait(1) {
            panic!("{}: {error}\n{}", card.driver, vm.check("cat /tmp/log")?);
        }
        far = flow.stop()?;
        far.exchange(FRAMES)?;
        println!("{} works after {:?}", card.driver, began.elapsed());
        vm.kill(&testpmd)?;
        vm.finish(testpmd, SOON)?;
    }
    vm.power_off(SOON)
}
