//! Each switch of `lab::switch` that Debian's packages have: it forwards between two and four ports, those that learn spare
//! ports that are not concerned, and nothing is left of it.
//!
//! Needs root, huge pages for Open vSwitch with DPDK, and the packages of `debian-packages.txt`. Switches that Debian does not have
//! are tested only on request: `cargo test -p millrace-e2e --test guests peers -- --ignored`.

mod guest;
mod rig;

use self::rig::Rig;
use lab::switch::{self, BasicForwarding, LinuxBridge, OpenVswitch, PortKind, Snabb, SwitchKind, Testpmd, Vpp};
use lab::{Result, ovs};

/// Tests the switch with two and with four ports of this kind.
fn check(switch: &dyn SwitchKind, kind: PortKind) -> Result<()> {
    let version = switch.available().unwrap_or_else(|reason| panic!("{}: {reason}", switch.name()));
    for ports in [2, 4] {
        println!("{version}, {ports} ports");
        let mut rig = Rig::new(switch, &vec![kind; ports])?;
        rig.wait_until_frames_pass()?;
        if switch.learns() {
            rig.wait_until_it_has_learned()?;
        }
        rig.remove()?;
    }
    Ok(())
}

#[test]
fn linux_bridge() -> Result<()> {
    check(&LinuxBridge, PortKind::Interface)
}

#[test]
fn testpmd() -> Result<()> {
    check(&Testpmd, PortKind::VhostUser)
}

#[test]
fn basicfwd() -> Result<()> {
    check(&BasicForwarding::default(), PortKind::VhostUser)
}

#[test]
fn ovs_userspace() -> Result<()> {
    check(&OpenVswitch(ovs::Build::Sockets), PortKind::Interface)
}

#[test]
fn ovs_dpdk_between_guests() -> Result<()> {
    check(&OpenVswitch(ovs::Build::Dpdk), PortKind::VhostUser)
}

#[test]
fn ovs_dpdk_between_interfaces() -> Result<()> {
    check(&OpenVswitch(ovs::Build::Dpdk), PortKind::Interface)
}

#[test]
fn ovs_dpdk_between_a_guest_and_an_interface() -> Result<()> {
    let switch = OpenVswitch(ovs::Build::Dpdk);
    switch.available().unwrap_or_else(|reason| panic!("{reason}"));
    let mut rig = Rig::new(&switch, &[PortKind::VhostUser, PortKind::Interface])?;
    rig.wait_until_frames_pass()?;
    rig.remove()
}

#[test]
#[ignore = "Debian has no VPP; docs/switches.md says how to build it"]
fn vpp() -> Result<()> {
    check(&Vpp, PortKind::VhostUser)?;
    check(&Vpp, PortKind::Interface)
}

#[test]
#[ignore = "Debian has no Snabb; docs/switches.md says how to build it"]
fn snabb() -> Result<()> {
    check(&Snabb, PortKind::VhostUser)?;
    check(&Snabb, PortKind::Interface)
}

#[test]
fn a_switch_that_does_not_start_says_why_and_leaves_nothing() -> Result<()> {
    for switch in switch::all() {
        if switch.available().is_err() || !switch.ports().contains(&PortKind::Interface) {
            continue;
        }
        let error = Rig::with_missing_interface(&*switch)?;
        assert!(error.contains("nosuch"), "{}: {error}", switch.name());
    }
    Ok(())
}

#[test]
fn names_differ_and_reasons_are_sentences() {
    let all = switch::all();
    let mut names: Vec<&str> = all.iter().map(|switch| switch.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.len());
    for switch in all {
        let found = switch.available();
        println!("{}: {found:?}", switch.name());
        assert!(found.unwrap_or_else(|reason| reason.0).len() > 5, "{}", switch.name());
    }
}
