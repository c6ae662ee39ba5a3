//! Validates and builds the `[[port]]` sections.

use super::check::Check;
use super::raw::{At, Field, RawFault, RawPort, Section, Several, VIDS};
use super::value::is_name;
use super::{acceleration, sharing, vxlan};
use engine::port::keys::{self, Checks};
use engine::port::sink;
use engine::spec::{Driver, Faults, PortSpec, Vlan};
use settings::Problem;
use std::collections::HashMap;
use std::ops::Range;

/// The built ports, with the details that later checks need.
pub(super) struct BuiltPorts {
    /// In the order of the file.
    pub list: Vec<BuiltPort>,
    /// Index in `list` by name.
    pub by_name: HashMap<String, usize>,
}

/// A built port.
pub(super) struct BuiltPort {
    /// The port.
    pub spec: PortSpec,
    /// Place of its name.
    pub name_span: Range<usize>,
    /// Place of its VLAN option, if it has one.
    pub vlan_span: Option<Range<usize>>,
    /// Place of its `aggregate` option, if set.
    pub aggregate_span: Option<Range<usize>>,
    /// Place of its `workers` option, if they share its queues.
    pub workers_span: Option<Range<usize>>,
    /// Start of its section.
    pub table: Range<usize>,
}

impl BuiltPorts {
    pub fn into_specs(self) -> Vec<PortSpec> {
        self.list.into_iter().map(|built| built.spec).collect()
    }

    /// Returns the port called `name`; reports an error if there is none.
    pub fn find(&self, check: &mut Check, name: &str, span: &Range<usize>) -> Option<&BuiltPort> {
        if let Some(&index) = self.by_name.get(name) {
            return Some(&self.list[index]);
        }
        let known = self.list.iter().map(|built| built.spec.name.as_str());
        let help = match settings::closest(name, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("add a [[port]] with name = \"{name}\", or name an existing port"),
        };
        check.error(span, format!("there is no port `{name}`"), help);
        None
    }

    /// Returns the port named by `"a"` or `"a.1"`, and the queue if it names one; reports an error if there is no such.
    pub fn find_queues(&self, check: &mut Check, at: &At<String>) -> Option<(&BuiltPort, Option<usize>)> {
        let (name, number) = split(at);
        let built = self.find(check, name, &at.span)?;
        let Some(number) = number else { return Some((built, None)) };
        let count = built.spec.driver.queues();
        if let Some(queue) = number.parse().ok().filter(|&queue| queue < count) {
            return Some((built, Some(queue)));
        }
        let help = match count {
            1 => format!("its only queue is `{name}.0`"),
            _ => format!("its queues are `{name}.0` to `{name}.{}`", count - 1),
        };
        check.error(&at.span, format!("port `{name}` has no queue `{number}`"), help);
        None
    }
}

/// Splits `"a.1"` into the name of a port and the number of a queue, and `"a"` into the name only.
pub(super) fn split(name: &str) -> (&str, Option<&str>) {
    name.split_once('.').map_or((name, None), |(name, number)| (name, Some(number)))
}

/// Builds all ports of a file that has `workers` workers.
pub(super) fn build<'f>(
    check: &mut Check,
    raw: impl Iterator<Item = &'f Section<RawPort>>,
    workers: usize,
) -> BuiltPorts {
    let mut built = BuiltPorts { list: Vec::new(), by_name: HashMap::new() };
    for at in raw {
        let name = name(check, &at.span, &at.name, "port");
        let spec = port(check, at, &name.value, workers);
        if let Some(&first) = built.by_name.get(&name.value) {
            let first: &BuiltPort = &built.list[first];
            check.problems.push(
                Problem::error(&name.span, format!("there are two ports `{}`", name.value), "rename one of them")
                    .and_at(&first.name_span, "the first one"),
            );
        } else if !name.is_empty() {
            built.by_name.insert(name.value.clone(), built.list.len());
        }
        built.list.push(BuiltPort {
            spec,
            name_span: name.span,
            vlan_span: at.vlan.as_ref().map(|at| &at.span).or(at.trunk.as_ref().map(|at| &at.span)).cloned(),
            aggregate_span: at.aggregate.as_ref().filter(|at| at.value).map(|at| at.span.clone()),
            workers_span: at.workers.as_ref().map(|at| at.span.clone()),
            table: at.span.clone(),
        });
    }
    built
}

/// Returns the name of a port or bridge; empty if it has none.
pub(super) fn name(check: &mut Check, table: &Range<usize>, field: &Field<String>, what: &str) -> At<String> {
    let Some(at) = check.required(table, "name", field, "name = \"a\"") else {
        return At { value: String::new(), span: table.clone() };
    };
    if !is_name(at) {
        check.error(
            &at.span,
            format!("`{}` cannot name a {what}", at.value),
            "use 1 to 32 letters, digits, `_` and `-`",
        );
    }
    at.clone()
}

fn port(check: &mut Check, raw: &Section<RawPort>, name: &str, workers: usize) -> PortSpec {
    let driver = driver(check, raw, name);
    PortSpec {
        vlan: vlan(check, raw),
        record: raw.record_to.as_ref().map(|at| check.written_file(at)),
        fault: raw.fault.as_ref().map(|raw| faults(check, raw)),
        aggregate: raw.aggregate.as_ref().is_some_and(|at| at.value),
        vxlan: vxlan::build(check, raw),
        sharing: sharing::build(check, raw, &driver, workers),
        acceleration: acceleration::build(&raw.acceleration),
        group: acceleration::group(check, raw),
        trusted: acceleration::trusted(check, raw, &driver),
        ..PortSpec::new(name, driver)
    }
}

/// Returns the kind and settings of the port; a sink if they cannot be read.
fn driver(check: &mut Check, raw: &Section<RawPort>, name: &str) -> Driver {
    check.required(&raw.span, "driver", &raw.driver, "driver = \"vhost-user\"");
    let mut section = keys::Section { name, table: &raw.span, checks: check };
    raw.settings.as_ref().map_or(Driver::Sink(sink::Settings), |keys| keys.build(&mut section))
}

fn vlan(check: &mut Check, raw: &RawPort) -> Vlan {
    if let (Some(vlan), Some(trunk)) = (raw.vlan.as_ref(), raw.trunk.as_ref()) {
        check.problems.push(
            Problem::error(
                &trunk.span,
                "a port cannot be access port and trunk port at once",
                "keep `vlan` for untagged frames or `trunk` for tagged ones",
            )
            .and_at(&vlan.span, "access port here"),
        );
    }
    if raw.vlan.is_some() {
        return Vlan::Access(check.number("vlan", &raw.vlan, &VIDS, VIDS.start) as u16);
    }
    match raw.trunk.as_ref().map(|at| (&at.value, &at.span)) {
        None => Vlan::Ignore,
        Some((Several::All, _)) => Vlan::Trunk(Vec::new()),
        Some((Several::List(list), span)) => {
            if list.is_empty() {
                check.error(span, "the trunk carries no VLAN", "list its VLANs, or write trunk = \"all\"");
            }
            Vlan::Trunk(trunk(check, list))
        }
    }
}

fn trunk(check: &mut Check, list: &[At<i64>]) -> Vec<u16> {
    let mut vids: Vec<u16> = Vec::new();
    for at in list {
        if !VIDS.contains(&at.value) {
            let help = format!("VLANs are numbered {} to {}", VIDS.start, VIDS.end - 1);
            check.error(&at.span, format!("{} is not a VLAN", at.value), help);
        } else if vids.contains(&(at.value as u16)) {
            check.error(&at.span, format!("VLAN {} is listed twice", at.value), "remove one");
        } else {
            vids.push(at.value as u16);
        }
    }
    vids.sort_unstable();
    vids
}

fn faults(check: &mut Check, raw: &RawFault) -> Faults {
    let mut probability = |key: &str, field: &Field<f64>| {
        let Some(at) = field.as_ref() else { return 0.0 };
        if !(0.0..=1.0).contains(&at.value) {
            check.error(
                &at.span,
                format!("`{key}` cannot be {}: it is a probability", at.value),
                "give a number from 0 to 1; 0.01 is one frame in a hundred",
            );
        }
        at.value
    };
    let (drop, corrupt) = (probability("drop", &raw.drop), probability("corrupt", &raw.corrupt));
    let delay = raw.delay.as_ref().and_then(|at| check.time("delay", at)).unwrap_or_default();
    Faults { drop, corrupt, delay, seed: check.number("seed", &raw.seed, &(0..i64::MAX), 1) as u64 }
}
