//! Tests of differences, by their reports.

use super::Difference;
use crate::port::{vhost_user, virtio_user};
use crate::reload::{ReloadAction, Step, Subject};
use crate::spec::{Acceleration, Driver, MappingSpec, Mode, PortQueues, PortSpec, QueueSizes, Spec, Tenancy};
use crate::switch::layout::assignment;

/// Returns a specification of a physical port and some guests, with these mappings: queue, guest, and copy-break.
fn spec(mappings: &[(usize, &str, u32)]) -> Spec {
    let nic = Driver::VirtioUser(virtio_user::Settings {
        socket: "nic.sock".into(),
        mode: Mode::Client,
        queues: 3,
        queue_sizes: QueueSizes::from(64),
        packed: false,
        offloads: None,
    });
    let guest = |name: &str| {
        let settings = vhost_user::Settings { queues: Some(1), ..vhost_user::Settings::at(name) };
        PortSpec::new(name, Driver::VhostUser(settings))
    };
    let mapping = |&(queue, to, copy_break): &(usize, &str, u32)| MappingSpec {
        from: PortQueues::one("wan", queue),
        to: PortQueues::all(to),
        pass_through: true,
        copy_break: Some(copy_break),
        tenancy: Tenancy::Trust(vec![]),
    };
    Spec {
        ports: vec![PortSpec::new("wan", nic), guest("fw"), guest("dpi")],
        mappings: mappings.iter().map(mapping).collect(),
        ..Spec::default()
    }
}

/// Returns the actions on ports and mappings that are not kept, and what they are taken for.
fn taken(old: &Spec, new: &Spec) -> Vec<String> {
    let of_interest = |action: &&ReloadAction| matches!(action.subject, Subject::Port | Subject::Mapping);
    let [had, has] = [old, new].map(|spec| assignment(spec, None));
    let actions = Difference::of((old, &had), (new, &has)).report(old, new);
    actions.iter().filter(of_interest).filter(|a| a.step != Step::Kept).map(ReloadAction::to_string).collect()
}

#[test]
fn a_physical_port_stays_open_while_it_is_mapped() {
    let [one, two] = [spec(&[(0, "fw", 64)]), spec(&[(0, "fw", 64), (2, "dpi", 64)])];
    let wan = "changed port wan (mapping)";
    assert_eq!(taken(&one, &two), [wan, "reopened port dpi (mapping)", "added mapping wan.2 -> dpi"]);
    assert_eq!(taken(&two, &one), [wan, "reopened port dpi (mapping)", "removed mapping wan.2 -> dpi"]);
    let other = spec(&[(0, "fw", 64), (2, "dpi", 128)]);
    assert_eq!(taken(&two, &other), [wan, "reopened port dpi (mapping)", "reopened mapping wan.2 -> dpi (copy-break)"]);
    let moved = spec(&[(0, "dpi", 64)]);
    let ports = [wan, "reopened port fw (mapping)", "reopened port dpi (mapping)"];
    assert_eq!(taken(&one, &moved)[..3], ports);
    assert_eq!(taken(&two, &two), [""; 0]);
}

#[test]
fn a_physical_port_is_reopened_for_its_first_mapping_and_after_its_last() {
    let [none, one] = [spec(&[]), spec(&[(0, "fw", 64)])];
    let ports = ["reopened port wan (mapping)", "reopened port fw (mapping)"];
    assert_eq!(taken(&none, &one)[..2], ports);
    assert_eq!(taken(&one, &none)[..2], ports);
}

#[test]
fn what_the_switch_may_choose_changes_while_a_port_is_open() {
    let (one, mut two) = (spec(&[]), spec(&[]));
    two.ports[0].trusted = true;
    two.ports[1].group = Some("owner".into());
    two.ports[2].acceleration = Acceleration::Off;
    let ports = ["changed port wan (trusted)", "changed port fw (group)", "changed port dpi (acceleration)"];
    assert_eq!(taken(&one, &two), ports);
}

#[test]
fn a_physical_port_whose_options_change_is_reopened() {
    let (one, mut two) = (spec(&[(0, "fw", 64)]), spec(&[(0, "fw", 64), (2, "dpi", 64)]));
    two.ports[0].aggregate = true;
    assert_eq!(taken(&one, &two)[0], "reopened port wan (aggregate)");
}
