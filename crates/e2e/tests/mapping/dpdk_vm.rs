//! DPDK ports at NICs that reach memory by DMA, behind an IOMMU.
//!
//! The switch, and the guests whose buffers the NICs receive into, run in a virtual machine whose programs drive its NICs. Frames reach
//! them over their links, the guests send them back, and this test checks them.

use std::time::Instant;

use e2e::echoed::Echoed;
use e2e::guest::{self, Kernel, Model, Nic, Socket, Vm};
use e2e::virtio::Sizes;
use e2e::{Home, SOON};
use lab::Result;
use lab::dpdk::plugin;

/// The machine's NICs, and DPDK's names for their drivers.
const NICS: [(Model, &str); 3] =
    [(Model::E1000, "net_e1000_em"), (Model::Vmxnet3, "net_vmxnet3"), (Model::Virtio, "net_virtio")];

/// Drivers of DPDK that the machine has.
const DRIVERS: [&str; 6] = ["bus_pci", "bus_vdev", "mempool_ring", "net_e1000", "net_virtio", "net_vmxnet3"];

const SIZES: Sizes = 60..=1514;

/// Frames that each NIC exchanges at once.
const FRAMES: u64 = 400;

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
