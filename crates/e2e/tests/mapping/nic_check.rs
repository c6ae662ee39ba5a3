//! `testbed nic-check` at NICs that reach memory by DMA, behind an IOMMU; crates/testbed/tests has the check of devices in software.

use e2e::guest::{self, Kernel, Model, Nic, Vm};
use lab::Result;
use lab::dpdk::plugin;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Models, what the driver does with guests' frames when it sends, and how their loans end.
const CARDS: [(Model, &str, &str); 3] = [
    (Model::E1000, "no", "the device was stopped"),
    (Model::Vmxnet3, "no", "the device was stopped"),
    (Model::Virtio, "no", "the device was closed"),
];

/// Drivers of DPDK that the machine has.
const DRIVERS: [&str; 6] = ["bus_pci", "bus_vdev", "mempool_ring", "net_e1000", "net_virtio", "net_vmxnet3"];

/// Time for a check, on an emulated machine.
const LIMIT: Duration = Duration::from_secs(300);

#[test]
#[ignore = "checks NICs in a virtual machine, which takes a minute or two; see CONTRIBUTING.md"]
fn a_cable_between_two_nics_answers_all_questions() -> Result<()> {
    let kernel = Kernel::prepare_with_vfio()?;
    let mut builder = Vm::builder("cards").iommu().memory_mib(768).processors(2);
    for program in [e2e::program(), e2e::plugin::of_millrace(), &e2e::testbed()] {
        builder = builder.program(program);
    }
    for driver in DRIVERS {
        builder = builder.library(plugin::installed(driver)?);
    }
    for (cable, (model, ..)) in CARDS.into_iter().enumerate() {
        builder = builder.nic(Nic::at_cable(model, cable)).nic(Nic::at_cable(model, cable));
    }
    let began = Instant::now();
    let vm = builder.spawn(&kernel)?;
    vm.wait_ready(guest::READY)?;
    for (cable, (model, sends, stopped)) in CARDS.into_iter().enumerate() {
        let [here, there] = [vm.bind("vfio-pci", 2 * cable)?, vm.bind("vfio-pci", 2 * cable + 1)?];
        let options = "--frames 1200 --guests 3 --rounds 1 --seconds 1 --size 1514 --memory 64M --patience 120";
        let job = vm
            .start(&format!("testbed nic-check {here} --peer {there} {options} --json 2>/tmp/said || cat /tmp/said"))?;
        let report = vm.checked(job, LIMIT)?;
        let report: Value = serde_json::from_str(&report).unwrap_or_else(|_| panic!("{model:?}: {report}"));
        println!("{model:?} after {:?}: {report:#}", began.elapsed());
        let answer = |question: &str| {
            let mut answers = report["answers"].as_array().unwrap().iter();
            answers
                .find(|answer| answer["question"] == question)
                .map(|answer| answer["answer"].as_str().unwrap())
                .unwrap()
        };
        for question in ["opens", "link", "iommu", "mapped", "receives-in-place", "bytes-right", "buffers-back"] {
            assert_eq!(answer(question), "yes", "{model:?}: {question}");
        }
        assert_eq!((answer("memory-untouched"), answer("sends-in-place")), ("yes", sends), "{model:?}");
        assert_eq!(report["card"]["kernel_driver"], "vfio-pci");
        for drain in report["drains"].as_array().unwrap() {
            assert_eq!(drain["stopped"], stopped, "{model:?}");
        }
        assert_eq!(report["rates"]["rows"].as_array().unwrap().len(), 1, "{model:?}");
    }
    vm.power_off(e2e::SOON)
}
