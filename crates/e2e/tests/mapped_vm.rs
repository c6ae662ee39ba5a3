//! A Linux machine whose buffers an interface of the host receives into.

mod support;

use e2e::guest::{self, Kernel, Nic, Vm};
use lab::{Result, cpu};
use support::mapped::PASS_THROUGH;
use support::wire::Cable;
use support::{Home, files};

/// Size of the files to move.
const FILE: usize = 2 << 20;

#[test]
fn it_talks_and_its_frames_are_in_place() -> Result<()> {
    let _alone = cpu::alone();
    let kernel = Kernel::prepare()?;
    for packed in [false, true] {
        let (cable, home) = (Cable::new()?, Home::new());
        // The kernel leaves checksums to hardware that does not exist.
        cable.there.run("ethtool", &["-K", "up1", "tx", "off"])?;
        cable.there.run("ip", &["address", "add", "192.0.2.1/24", "dev", "up1"])?;
        let millrace = cable.switch(&home, "", &[PASS_THROUGH, &support::poller()].concat());
        let nic = Nic::new(home.socket("fw"));
        let vm = Vm::builder("a").nic(if packed { nic.packed() } else { nic }).spawn(&kernel)?;
        vm.wait_ready(guest::READY)?;
        vm.set_address("eth0", "192.0.2.2/24")?;
        millrace.wait_mapped();
        for size in ["56", "1472"] {
            cable.there.run("ping", &["-c", "5", "-i", "0.2", "-W", "2", "-M", "do", "-s", size, "192.0.2.2"])?;
        }
        assert_eq!(vm.ping("192.0.2.1", 5)?.received, 5);
        files::move_both_ways(&cable.there, &vm, ["192.0.2.1", "192.0.2.2"], FILE, &home)?;
        let mapping = millrace.mapping();
        let frames = (FILE / 1448) as u64;
        assert!(mapping.in_place > frames && mapping.copied == 0 && mapping.sent_in_place > frames / 2, "{mapping:?}");
        let said = millrace.ctl("mappings");
        let line: Vec<&str> = said.lines().nth(1).unwrap_or_default().split_whitespace().collect();
        assert_eq!(line.get(..4), Some(&["wan.0", "fw.0", "pass-through", "zero-copy"][..]), "{said}");
        vm.power_off(support::SOON)?;
        millrace.wait_down("fw");
        let said = millrace.ctl("mappings");
        assert!(said.contains("no guest has started queue 0"), "{said}");
        millrace.stop();
    }
    Ok(())
}
