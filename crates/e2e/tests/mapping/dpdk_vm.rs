//! DPDK ports at NICs that reach memory by DMA, behind an IOMMU.
//!
//! The switch, and the guests whose buffers the NICs receive into, run in a virtual machine whose programs drive its NICs. Frames reach
//! them over their links, the guests send them back, and this test checks them.

use std::time::Instant;

use e2e::echoed::{Echoed, Flowing};
use e2e::guest::{self, Job, Kernel, Model, Nic, Socket, Vm};
use e2e::virtio::Sizes;
use e2e::{Home, SOON, VmSwitch};
use lab::Result;
use lab::dpdk::plugin;
use lab::millrace::config::*;

/// The machine's NICs, and DPDK's names for their drivers.
const NICS: [(Model, &str); 3] =
    [(Model::E1000, "net_e1000_em"), (Model::Vmxnet3, "net_vmxnet3"), (Model::Virtio, "net_virtio")];

/// Drivers of DPDK that the machine has.
const DRIVERS: [&str; 6] = ["bus_pci", "bus_vdev", "mempool_ring", "net_e1000", "net_virtio", "net_vmxnet3"];

const SIZES: Sizes = 60..=1514;

/// Frames that each NIC exchanges at once.
const FRAMES: u64 = 400;

/// How often the guests of all NICs die, and after how many deaths all one-time allocations have been made.
const DEATHS: usize = 8;
const WARM: usize = 3;

/// Huge pages of the machine, of 2 MiB: DPDK's and the guests'.
const HUGE_PAGES: usize = 96;

/// A machine, the PCI addresses of its NICs, and the far ends of their links.
struct Machine {
    vm: Vm,
    addresses: Vec<String>,
    far: Vec<Echoed>,
}

impl Machine {
    /// Boots a machine with a program, and all that it opens.
    fn boot(home: &Home, program: impl Fn(guest::Builder) -> guest::Builder) -> Result<Self> {
        let kernel = Kernel::prepare_with_vfio()?;
        let path = |number: usize| home.path(&format!("far{number}"));
        let sockets: Vec<_> = (0..NICS.len()).map(|number| Socket::bind(path(number))).collect::<Result<_>>()?;
        let mut builder = Vm::builder("nics").iommu().memory_mib(768).processors(2);
        for (number, (model, _)) in NICS.into_iter().enumerate() {
            builder = builder.nic(Nic::emulated(model, path(number)));
        }
        for driver in DRIVERS {
            builder = builder.library(plugin::installed(driver)?);
        }
        let vm = program(builder).spawn(&kernel)?;
        vm.wait_ready(guest::READY)?;
        vm.check(&format!("echo {HUGE_PAGES} >/proc/sys/vm/nr_hugepages"))?;
        let addresses = (0..NICS.len()).map(|number| vm.bind_vfio(number)).collect::<Result<_>>()?;
        let far = sockets.into_iter().zip(1..).map(|(socket, number)| Ok(Echoed::new(socket.accept()?, number, SIZES)));
        Ok(Self { addresses, far: far.collect::<Result<_>>()?, vm })
    }
}

/// Tells faults of the machine from faults of the switch.
#[test]
#[ignore = "DPDK's own program instead of the switch; for when the others fail"]
fn the_machine_s_nics_work_with_testpmd() -> Result<()> {
    let home = Home::new();
    let began = Instant::now();
    let machine = Machine::boot(&home, |builder| builder.program("/usr/bin/dpdk-testpmd"))?;
    println!("ready after {:?}", began.elapsed());
    for ((address, mut far), (_, driver)) in machine.addresses.iter().zip(machine.far).zip(NICS) {
        let testpmd = machine.vm.start(&format!(
            "sleep 1000 | dpdk-testpmd -l 0-1 --in-memory --no-telemetry -m 64 -a {address} -- \
             --forward-mode=io --port-topology=loop --total-num-mbufs=4096 >/tmp/log 2>&1"
        ))?;
        let mut flow = far.flow();
        if let Err(error) = flow.wait(1) {
            panic!("{driver}: {error}\n{}", machine.vm.check("cat /tmp/log")?);
        }
        far = flow.stop()?;
        far.exchange(FRAMES)?;
        println!("{driver} works after {:?}", began.elapsed());
        machine.vm.kill(&testpmd)?;
        machine.vm.finish(testpmd, SOON)?;
    }
    machine.vm.power_off(SOON)
}

/// Returns the switch's configuration: each NIC's port and a guest's, which are patched, or one wire.
fn config(addresses: &[String], mapped: bool) -> RawFile {
    let parts = addresses.iter().zip(0..).map(|(address, number)| {
        let [wan, fw] = ["wan", "fw"].map(|name| format!("{name}{number}"));
        let wire = || RawMapping { copy_break: 0.into(), ..pass_through(&wan, &fw) };
        let joint = (mapped.then(wire), (!mapped).then(|| patch(&wan, &fw)));
        (dpdk_port(&wan, address), vhost_user(&fw), joint)
    });
    let worker = RawWorker { patience: "0s".to_owned().into(), ..backing_off() };
    let devices: Vec<&str> = addresses.iter().map(String::as_str).collect();
    file((parts.collect::<Vec<_>>(), dpdk_devices(&devices), Acceleration::Off, worker))
}

/// A guest for each NIC, which sends back all frames.
struct Guests<'v> {
    vm: &'v Vm,
    jobs: Vec<Job>,
}

impl<'v> Guests<'v> {
    /// Starts them.
    fn start(vm: &'v Vm, packed: bool) -> Result<Self> {
        let format = if packed { "packed" } else { "split" };
        let command = |number| format!("cd /tmp/m && exec e2e-echo fw{number}.sock {format} 256");
        let jobs = (0..NICS.len()).map(|number| vm.start(&command(number)));
        Ok(Self { vm, jobs: jobs.collect::<Result<_>>()? })
    }

    fn kill(self) -> Result<()> {
        self.jobs.iter().try_for_each(|job| self.vm.kill(job))?;
        self.jobs.into_iter().try_for_each(|job| self.vm.finish(job, SOON).map(drop))
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

/// Returns how many files and mappings the switch has.
fn holds(vm: &Vm) -> Result<String> {
    vm.check("cd /proc/$(cat /tmp/m/pid) && ls fd | wc -l && wc -l <maps")
}

/// Kills the guests of all NICs while frames flow, again and again; others take their places. Returns the last ones.
fn kill_guests<'v>(vm: &'v Vm, mut guests: Guests<'v>, far: Vec<Echoed>) -> Result<(Guests<'v>, Vec<Echoed>)> {
    let mut flows: Vec<_> = far.into_iter().map(Echoed::flow).collect();
    let mut before = String::new();
    for death in 0..DEATHS {
        flows.iter_mut().try_for_each(|flow| flow.wait(50))?;
        guests.kill()?;
        if death == WARM {
            before = holds(vm)?;
        }
        guests = Guests::start(vm, death % 2 == 0)?;
    }
    flows.iter_mut().try_for_each(|flow| flow.wait(50))?;
    println!("after {WARM} deaths and after {DEATHS}: {before}; {}", holds(vm)?);
    let far = exchange(flows.into_iter().map(Flowing::stop).collect::<Result<_>>()?)?;
    Ok((guests, far))
}

/// Guests receive into memory that comes and goes. One that has vmxnet3 would need more buffers, as that keeps two rings full.
fn plug(vm: &Vm, far: Vec<Echoed>) -> Result<()> {
    let fits = |number: &usize| NICS[*number].0 != Model::Vmxnet3;
    let formats = ["split", "packed"].into_iter().cycle();
    let guests = (0..NICS.len()).filter(fits).zip(formats).map(|(number, format)| {
        let arguments = format!("fw{number}.sock {format} control wan{number}.0 {}", number + 1);
        vm.start(&format!("cd /tmp/m && exec e2e-plugged {arguments}"))
    });
    let guests: Vec<_> = guests.collect::<Result<_>>()?;
    let fed: Vec<_> = far.into_iter().map(Echoed::feed).collect();
    for guest in guests {
        println!("{}", vm.checked(guest, SOON)?);
    }
    fed.into_iter().try_for_each(|feed| feed.stop().map(drop))
}

#[test]
fn nics_receive_into_guests_by_dma() -> Result<()> {
    let (home, began) = (Home::new(), Instant::now());
    let mut programs = vec![e2e::program().to_owned(), e2e::plugin::of_millrace().to_owned()];
    programs.extend(["e2e-echo", "e2e-plugged"].map(e2e::companion));
    let Machine { vm, addresses, mut far } =
        Machine::boot(&home, |builder| programs.iter().fold(builder, |builder, program| builder.program(program)))?;
    println!("ready after {:?}", began.elapsed());
    let switch = VmSwitch::start(&vm, config(&addresses, false))?;
    println!("the switch runs after {:?}\n{}", began.elapsed(), switch.ctl("ports")?);
    let guests = Guests::start(&vm, false)?;
    far = exchange(far)?;
    println!("copied after {:?}\n{}", began.elapsed(), switch.ctl("ports")?);
    let ports = switch.ctl("ports")?;
    for (_, driver) in NICS {
        assert!(ports.contains(driver), "{ports}");
    }

    guests.kill()?;
    println!("{}", switch.reload(config(&addresses, true))?);
    println!("reloaded after {:?}", began.elapsed());
    let guests = Guests::start(&vm, false)?;
    far = exchange(far)?;
    println!("mapped after {:?}\n{}", began.elapsed(), switch.ctl("mappings")?);
    for mapping in switch.mappings()? {
        assert!(mapping.zero_copy && mapping.in_place > FRAMES / 2, "{mapping:?}");
    }
    let (guests, mut far) = kill_guests(&vm, guests, far)?;
    println!("killed after {:?}\n{}", began.elapsed(), switch.ctl("mappings")?);
    guests.kill()?;
    plug(&vm, far)?;
    println!("plugged after {:?}\n{}", began.elapsed(), switch.ctl("mappings")?);
    println!("{}", switch.ctl("ports")?);
    switch.stop()?;
    vm.power_off(SOON)
}
