//! A NIC that does not answer while it has a guest's buffers: it may still fill them, so they must not be returned to the
//! guest. The NIC is a second Millrace behind a virtio-user port, stopped by a signal.

use e2e::virtio::{Exchange, Options};
use e2e::{Home, Millrace, wait_for};
use engine::reload::{ReloadAction, Step};
use lab::Result;
use lab::millrace::config::*;
use rustix::process::Signal;

/// Returns the switch's configuration with this mapping. `other` must not be affected.
fn config(nic: &Home, mapping: RawMapping) -> RawFile {
    let wan = virtio_user("wan", &nic.socket("wan"));
    let bridge = bridge("br0", ["wan", "fw", "other"]);
    file((wan, vhost_user("fw"), vhost_user("other"), mapping, bridge, e2e::poller()))
}

/// Returns a mapping to one guest that trusts the other one.
fn trusting(to: &str, other: &str) -> RawMapping {
    let trust = Several::List(vec![other.to_owned().into()]).into();
    RawMapping { trust, copy_break: 0.into(), ..mapping("wan", to) }
}

fn start() -> (Home, Millrace, Home, Millrace) {
    let nic_home = Home::new();
    let nic = nic_home.start((patched("wan", "far"), sleeper()));
    let home = Home::new();
    let millrace = home.start(config(&nic_home, trusting("fw", "other")));
    millrace.wait_up(&["wan"]);
    (nic_home, nic, home, millrace)
}

/// Checks that frames pass in place again, with a new guest.
fn recovers(nic_home: &Home, mut nic: Millrace, home: &Home, millrace: Millrace) -> Result<()> {
    nic.daemon.signal(Signal::CONT)?;
    millrace.wait_up(&["wan"]);
    home.configure(config(nic_home, trusting("fw", "other")));
    millrace.reload();
    let guest = Options::new(home.socket("fw")).connect()?;
    millrace.wait_mapped();
    let far = Options::new(nic_home.socket("far")).connect()?;
    Exchange::new([guest, far], [1, 2], 60..=1500, 8).run(1000, e2e::SOON)?;
    assert!(millrace.mapping().in_place > 500, "{:?}", millrace.mapping());
    millrace.stop();
    nic.stop();
    Ok(())
}

#[test]
fn a_guest_whose_buffers_do_not_come_back_loses_its_device() -> Result<()> {
    let (nic_home, mut nic, home, mut millrace) = start();
    let mut guest = Options::new(home.socket("fw")).connect()?;
    let other = Options::new(home.socket("other")).connect()?;
    millrace.wait_mapped();
    nic.daemon.signal(Signal::STOP)?;
    // Without trust, the guest's buffers must be returned.
    home.configure(config(&nic_home, RawMapping { copy_break: 0.into(), ..mapping("wan", "fw") }));
    let mark = millrace.daemon.log().mark();
    millrace.reload();
    millrace.wait_said(mark, "could not be stopped");
    millrace.wait_said(mark, "the guest is disconnected: port \"wan\" still owns some of the guest's buffers");
    wait_for("the guest to be disconnected", || (!guest.is_connected()).then_some(()));
    assert_eq!(guest.receive(usize::MAX, |_| Ok(()))?, 0, "nothing came back");
    assert!(other.is_connected(), "nobody else notices");
    recovers(&nic_home, nic, &home, millrace)
}

#[test]
fn a_guest_that_leaves_while_buffers_are_out() -> Result<()> {
    let (nic_home, mut nic, home, mut millrace) = start();
    let guest = Options::new(home.socket("fw")).connect()?;
    millrace.wait_mapped();
    nic.daemon.signal(Signal::STOP)?;
    let mark = millrace.daemon.log().mark();
    drop(guest);
    millrace.wait_said(mark, "cannot be stopped: port \"wan\" still owns some of the guest's buffers");
    millrace.wait_down("fw");
    recovers(&nic_home, nic, &home, millrace)
}

/// The next guest gets no buffer filled before the NIC has reconnected: it may still fill those of the first.
#[test]
fn a_mapping_that_moves_to_another_guest_while_buffers_are_out() -> Result<()> {
    let (nic_home, mut nic, home, mut millrace) = start();
    let mut guest = Options::new(home.socket("fw")).connect()?;
    millrace.wait_mapped();
    nic.daemon.signal(Signal::STOP)?;
    home.configure(config(&nic_home, trusting("other", "fw")));
    let mark = millrace.daemon.log().mark();
    let report = millrace.reload();
    assert_eq!((report.ports(Step::Changed), report.ports(Step::Reopened)), (vec!["wan"], vec!["fw", "other"]));
    let failed: Vec<_> =
        report.actions.iter().filter(|action| action.error.is_some()).map(ReloadAction::to_string).collect();
    let [failed] = &failed[..] else { panic!("only the NIC's port fails: {failed:?}") };
    assert!(failed.starts_with("changed port wan (mapping), which FAILED: "), "{failed}");
    assert!(failed.contains("queue 0 could not be stopped: "), "{failed}");
    assert!(failed.ends_with("; the port is being opened again"), "{failed}");
    millrace.wait_said(mark, "cannot be stopped: port \"wan\" still owns some of the guest's buffers");
    wait_for("the guest to be disconnected", || (!guest.is_connected()).then_some(()));
    assert_eq!(guest.receive(usize::MAX, |_| Ok(()))?, 0, "nothing came back");
    let memory = guest.leave();
    let other = Options::new(home.socket("other")).connect()?;
    let mapping = millrace.mapping();
    assert!(mapping.to == "other.0" && !mapping.zero_copy && mapping.on_loan == 0, "{mapping:?}");
    // Before the port has seen that its queue failed, and after.
    let reason = mapping.reason.as_deref().unwrap_or_default();
    let is_true = reason.starts_with("port \"wan\" is being opened again: queue 0 could not be stopped: ");
    assert!(is_true || reason == "port \"wan\" is down", "{reason}");
    nic.daemon.signal(Signal::CONT)?;
    millrace.wait_mapped();
    let then = memory();
    let far = Options::new(nic_home.socket("far")).connect()?;
    Exchange::new([other, far], [1, 2], 60..=1500, 8).run(1000, e2e::SOON)?;
    assert!(memory() == then, "frames for the new guest are written to the memory of the old one");
    millrace.wait_down("other");
    recovers(&nic_home, nic, &home, millrace)
}
