//! Validates and builds the `[[port]]` sections.

use super::check::Check;
use super::options::{Driver as Kind, drivers_of};
use super::raw::{self, At, Field, Mode, Queues, RawFault, RawPort, Section, Several, VIDS};
use super::reach::Purpose;
use super::value::{is_interface_name, is_name};
use super::{access, vxlan};
use engine::spec::{self, Analysis, Driver, Faults, Pace, PortSpec, Vlan, XdpMode};
use packet::MacAddr;
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
}

/// Builds all ports.
pub(super) fn build(check: &mut Check, raw: &[Section<RawPort>]) -> BuiltPorts {
    let mut built = BuiltPorts { list: Vec::new(), by_name: HashMap::new() };
    let mut interfaces: HashMap<&str, &Range<usize>> = HashMap::new();
    for at in raw {
        let name = name(check, &at.span, &at.name, "port");
        if let Some(interface) = at.interface.as_ref()
            && let Some(first) = interfaces.insert(&interface.value, &interface.span)
        {
            check.problems.push(
                Problem::error(
                    &interface.span,
                    format!("interface `{}` already has a port", interface.value),
                    "attach a single port to it",
                )
                .and_at(first, "already used here"),
            );
        }
        let spec = port(check, at, &name.value);
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

fn port(check: &mut Check, raw: &Section<RawPort>, name: &str) -> PortSpec {
    let kind = check.required(&raw.span, "driver", &raw.driver, "driver = \"vhost-user\"").map(|at| at.value);
    if let Some(kind) = kind {
        foreign_options(check, raw, kind);
    }
    PortSpec {
        name: name.to_owned(),
        driver: driver(check, raw, kind.unwrap_or(Kind::Sink), name),
        vlan: vlan(check, raw),
        record: raw.record_to.as_ref().map(|at| check.written_file(at)),
        fault: raw.fault.as_ref().map(|raw| faults(check, raw)),
        aggregate: raw.aggregate.as_ref().is_some_and(|at| at.value),
        vxlan: vxlan::build(check, raw, kind),
        analysis: Analysis::default(),
    }
}

/// Reports options that belong to other drivers only.
fn foreign_options(check: &mut Check, raw: &RawPort, kind: Kind) {
    fn place<T>(field: &Field<T>) -> Option<&Range<usize>> {
        field.as_ref().map(|at| &at.span)
    }
    let given = [
        ("socket", place(&raw.socket)),
        ("socket-mode", place(&raw.socket_mode)),
        ("socket-owner", place(&raw.socket_owner)),
        ("socket-group", place(&raw.socket_group)),
        ("memory", place(&raw.memory)),
        ("mode", place(&raw.mode)),
        ("queues", place(&raw.queues)),
        ("queue-size", place(&raw.queue_size)),
        ("packed", place(&raw.packed)),
        ("interface", place(&raw.interface)),
        ("mtu", place(&raw.mtu)),
        ("replay", place(&raw.replay)),
        ("record", place(&raw.record)),
        ("loop", place(&raw.repeat)),
        ("size", place(&raw.size)),
        ("rate", place(&raw.rate)),
        ("burst", place(&raw.burst)),
        ("frames", place(&raw.frames)),
        ("mac", place(&raw.mac)),
    ];
    for (key, span) in given {
        let Some(drivers) = drivers_of(key) else { continue };
        if let Some(span) = span
            && !drivers.contains(&kind)
        {
            let known: Vec<&str> = drivers.iter().map(|driver| driver.as_str()).collect();
            let mut help = format!("remove it; it is an option of {}", known.join(", "));
            if (key, kind) == ("mac", Kind::VirtioUser) {
                help.push_str(". The switch sends no frames of its own here, and vhost-user tells nobody an address");
            }
            check.error(span, format!("`{key}` means nothing to driver {kind}"), help);
        }
    }
}

fn driver(check: &mut Check, raw: &Section<RawPort>, kind: Kind, name: &str) -> Driver {
    match kind {
        Kind::VhostUser => {
            let mode = mode(check, raw, kind, &[Mode::Server, Mode::Client]);
            Driver::VhostUser {
                socket: socket(check, raw, mode),
                mode: side(mode),
                access: access::build(check, raw, mode),
                queues: given_queues(check, raw),
                any_memory: raw.memory.as_ref().is_some_and(|at| at.value == raw::MemoryKind::Any),
            }
        }
        Kind::VirtioUser => {
            let mode = mode(check, raw, kind, &[Mode::Client, Mode::Server]);
            Driver::VirtioUser {
                socket: socket(check, raw, mode),
                mode: side(mode),
                queues: queues(check, raw, kind),
                queue_sizes: queue_size(check, raw, raw::DEFAULT_QUEUE_SIZE).into(),
                packed: raw.packed.as_ref().is_some_and(|at| at.value),
            }
        }
        Kind::Tap => Driver::Tap {
            interface: raw.interface.as_ref().map(|at| interface(check, at)),
            mtu: Some(check.number("mtu", &raw.mtu, &raw::MTUS, raw::DEFAULT_MTU) as u32),
            queues: queues(check, raw, kind),
        },
        Kind::AfPacket => Driver::AfPacket { interface: existing_interface(check, raw), queues: 1 },
        Kind::AfXdp => Driver::AfXdp {
            interface: existing_interface(check, raw),
            queues: queues(check, raw, kind),
            mode: match mode(check, raw, kind, &[Mode::Auto, Mode::ZeroCopy, Mode::Copy]) {
                Mode::ZeroCopy => XdpMode::ZeroCopy,
                Mode::Copy => XdpMode::Copy,
                _ => XdpMode::Auto,
            },
            queue_size: queue_size(check, raw, raw::DEFAULT_XDP_QUEUE_SIZE),
        },
        Kind::Pcap => pcap(check, raw),
        Kind::Generator => Driver::Generator {
            size: check.number("size", &raw.size, &raw::FRAME_SIZES, raw::DEFAULT_FRAME_SIZE) as u32,
            pace: pace(check, raw),
            frames: limit(check, "frames", &raw.frames),
            mac: Some(mac(check, &raw.mac, name).0),
        },
        Kind::Sink => Driver::Sink,
    }
}

/// Returns the number of queue pairs, if the file gives it.
fn given_queues(check: &mut Check, raw: &RawPort) -> Option<u16> {
    let at = raw.queues.as_ref()?;
    let Queues::Number(number) = at.value else { return None };
    check.within("queues", number, &at.span, &raw::QUEUES).then_some(number as u16)
}

/// Returns the number of queue pairs of a port whose peer does not request any.
fn queues(check: &mut Check, raw: &RawPort, kind: Kind) -> u16 {
    if let Some(at) = raw.queues.as_ref().filter(|at| at.value == Queues::Auto) {
        check.error(&at.span, format!("driver {kind} does not know how many queues are wanted"), "give their number");
    }
    given_queues(check, raw).unwrap_or(1)
}

/// Reads a number of frames, where 0 means no limit.
fn limit(check: &mut Check, key: &str, field: &Field<i64>) -> u64 {
    check.number(key, field, &(0..i64::MAX), 0) as u64
}

fn pace(check: &mut Check, raw: &RawPort) -> Pace {
    let burst = check.number("burst", &raw.burst, &raw::BURSTS, 1) as u32;
    Pace { rate: limit(check, "rate", &raw.rate), burst }
}

/// Returns the mode, one of `known`; the first of them is the default.
fn mode(check: &mut Check, raw: &RawPort, kind: Kind, known: &[Mode]) -> Mode {
    let Some(at) = raw.mode.as_ref() else { return known[0] };
    if !known.contains(&at.value) {
        let names: Vec<_> = known.iter().map(|mode| format!("\"{}\"", mode.as_str())).collect();
        check.error(
            &at.span,
            format!("`{}` is no mode of driver {kind}", at.value.as_str()),
            format!("give {}", names.join(" or ")),
        );
    }
    at.value
}

/// Returns which side of a socket the switch takes.
fn side(mode: Mode) -> spec::Mode {
    if mode == Mode::Server { spec::Mode::Server } else { spec::Mode::Client }
}

fn queue_size(check: &mut Check, raw: &RawPort, default: i64) -> u16 {
    let size = check.number("queue-size", &raw.queue_size, &raw::QUEUE_SIZES, default) as u16;
    if let Some(at) = raw.queue_size.as_ref()
        && !size.is_power_of_two()
    {
        check.error(
            &at.span,
            format!("`queue-size` cannot be {size}: it is not a power of two"),
            format!("give {} or {}", size.next_power_of_two() / 2, size.next_power_of_two()),
        );
    }
    size
}

fn existing_interface(check: &mut Check, raw: &Section<RawPort>) -> String {
    let at = check.required(&raw.span, "interface", &raw.interface, "interface = \"eth1\"");
    at.map(|at| interface(check, at)).unwrap_or_default()
}

fn socket(check: &mut Check, raw: &Section<RawPort>, mode: Mode) -> std::path::PathBuf {
    let Some(at) = check.required(&raw.span, "socket", &raw.socket, "socket = \"a.sock\"") else {
        return std::path::PathBuf::new();
    };
    let path = check.socket(at, mode == Mode::Server);
    // Connecting needs no landlock permission.
    if mode == Mode::Server {
        check.reachable(at, &path, Purpose::Create);
    }
    path
}

fn interface(check: &mut Check, at: &At<String>) -> String {
    if !is_interface_name(at) {
        check.error(
            &at.span,
            format!("`{}` cannot name a network interface", at.value),
            "use 1 to 15 characters, without spaces, `/` and `:`",
        );
    }
    at.value.clone()
}

fn pcap(check: &mut Check, raw: &Section<RawPort>) -> Driver {
    let unread = check.is_unread(&raw.span, "replay") || check.is_unread(&raw.span, "record");
    if raw.replay.is_none() && raw.record.is_none() && !unread {
        check.error(
            &raw.span,
            "a pcap port without `replay` and `record` does nothing",
            "add `replay = \"in.pcap\"`, `record = \"out.pcap\"` or both",
        );
    }
    if let Some(at) = raw.repeat.as_ref()
        && at.value
        && raw.replay.is_none()
    {
        check.error(&at.span, "there is nothing to `loop` without `replay`", "add `replay = \"in.pcap\"`");
    }
    Driver::Pcap {
        replay: raw.replay.as_ref().map(|at| check.read_file(at)),
        record: raw.record.as_ref().map(|at| check.written_file(at)),
        repeat: raw.repeat.as_ref().is_some_and(|at| at.value),
        pace: pace(check, raw),
    }
}

fn mac(check: &mut Check, field: &Field<String>, name: &str) -> MacAddr {
    field.as_ref().and_then(|at| check.unicast(at)).unwrap_or_else(|| MacAddr::from_name(name))
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
