//! Validates and builds `[[patch]]` and `[[bridge]]`.

use super::check::Check;
use super::ports::{BuiltPort, BuiltPorts, name, split};
use super::raw::{self, At, MappingMode, RawBridge, RawFile, RawPatch, RawPort, RawStatic, Section};
use engine::forward::mac_table::MOST_STATICS;
use engine::spec::{BridgeSpec, FailMode, StaticEntry, Vlan};
use packet::MacAddr;
use settings::{FEW, Problem, few};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::time::Duration;

/// Place where each port is joined, by the port's name.
type Uses<'a> = HashMap<&'a str, &'a Range<usize>>;

/// Sections that join ports.
pub(super) struct Joints<'f> {
    pub(super) patches: Vec<&'f Section<RawPatch>>,
    pub(super) bridges: Vec<&'f Section<RawBridge>>,
    /// All ports: they may name their bridge.
    pub(super) members: Vec<&'f Section<RawPort>>,
}

impl<'f> Joints<'f> {
    /// Returns the ports that name their bridge, by bridge.
    fn by_bridge(&self) -> HashMap<&'f str, Vec<&'f At<String>>> {
        let mut by_bridge: HashMap<_, Vec<_>> = HashMap::new();
        for (bridge, name) in self.members.iter().filter_map(|port| port.bridge.as_ref().zip(port.name.as_ref())) {
            by_bridge.entry(bridge.as_str()).or_default().push(name);
        }
        by_bridge
    }
}

/// Builds all patches and bridges, and warns about ports in none. `fail_mode` applies to a bridge with `openflow`.
pub(super) fn build(
    check: &mut Check,
    file: &RawFile,
    joints: &Joints<'_>,
    ports: &BuiltPorts,
    fail_mode: Option<FailMode>,
) -> (Vec<[String; 2]>, Vec<BridgeSpec>) {
    let mut uses = Uses::new();
    let patches = joints.patches.iter().filter_map(|raw| patch(check, raw, ports, &mut uses)).collect();
    let mut by_bridge = joints.by_bridge();
    let mut names: HashMap<&str, &Range<usize>> = HashMap::new();
    let mut bridges = Vec::new();
    for raw in &joints.bridges {
        if let Some(at) = raw.name.as_ref()
            && let Some(first) = names.insert(&at.value, &at.span)
        {
            check.problems.push(
                Problem::error(&at.span, format!("there are two bridges `{}`", at.value), "rename one of them")
                    .and_at(first, "the first one"),
            );
        }
        let flows = fail_mode.filter(|_| raw.openflow.as_ref().is_some_and(|at| at.value));
        let own = raw.name.as_ref().and_then(|name| by_bridge.remove(name.as_str())).unwrap_or_default();
        bridges.push(BridgeSpec { flows, ..bridge(check, raw, &own, ports, &mut uses) });
    }
    for at in joints.members.iter().filter_map(|port| port.bridge.as_ref()) {
        if by_bridge.contains_key(at.as_str()) {
            let help = match settings::closest(at, names.keys().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("add a [[bridge]] with name = \"{}\"", at.value),
            };
            check.error(&at.span, format!("there is no bridge `{}`", at.value), help);
        }
    }
    // A mapping in pass-through mode joins its ports as a patch does; other queues of a port may be joined to others.
    let mut by_queue = HashSet::new();
    for raw in file.mappings.iter().filter(|raw| raw.mode.as_ref().is_some_and(|m| m.value == MappingMode::PassThrough))
    {
        // Unknown port names are reported with the mapping.
        let known = |at: &&At<String>| ports.list.iter().any(|built| built.spec.name == split(at).0);
        for at in [&raw.from, &raw.to].into_iter().filter_map(|end| end.as_ref()).filter(known) {
            let (name, queue) = split(at);
            if queue.is_none() || !by_queue.contains(name) {
                join(check, ports, name, &at.span, &mut uses);
            }
            if queue.is_some() {
                by_queue.insert(name);
            }
        }
    }
    // A port that gets only copies is used, too.
    uses.extend(file.mirrors.iter().filter_map(|raw| raw.to.as_ref()).map(|to| (to.as_str(), &to.span)));
    // An unreadable list would make its ports look unused.
    let complete = joints.patches.iter().all(|raw| !check.is_unread(&raw.span, "ports"))
        && joints.bridges.iter().all(|raw| !check.is_unread(&raw.span, "ports"))
        && joints.members.iter().all(|raw| !check.is_unread(&raw.span, "bridge"));
    let is_unused = |built: &&BuiltPort| !built.spec.name.is_empty() && !uses.contains_key(built.spec.name.as_str());
    if complete {
        warn_of_unused(check, &ports.list.iter().filter(is_unused).collect::<Vec<_>>());
    }
    (patches, bridges)
}

/// Warns about each of these ports; once about many, so that they do not hide more important warnings.
fn warn_of_unused(check: &mut Check, unused: &[&BuiltPort]) {
    const HELP: &str = "of a [[patch]] or [[bridge]]";
    if let [first, ..] = unused
        && unused.len() > FEW
    {
        let names: Vec<_> = unused.iter().map(|built| built.spec.name.as_str()).collect();
        let message =
            format!("{} are in no patch and no bridge: all that they receive is dropped", few("port", &names));
        return check.warn(&first.name_span, message, format!("list them in the `ports` {HELP}"));
    }
    for built in unused {
        let message =
            format!("port `{}` is in no patch and no bridge: all that it receives is dropped", built.spec.name);
        check.warn(&built.name_span, message, format!("list it in the `ports` {HELP}"));
    }
}

/// Returns the port called `name`, if it exists and is in no other patch or bridge.
fn join<'a, 'b>(
    check: &mut Check,
    ports: &'b BuiltPorts,
    name: &'a str,
    span: &'a Range<usize>,
    uses: &mut Uses<'a>,
) -> Option<&'b BuiltPort> {
    let built = ports.find(check, name, span)?;
    if let Some(first) = uses.get(name) {
        check.problems.push(
            Problem::error(
                span,
                format!("port `{name}` is already joined to something"),
                "a port can be in one patch or bridge only; remove it from one of the two",
            )
            .and_at(first, "joined here"),
        );
        return None;
    }
    uses.insert(name, span);
    Some(built)
}

fn patch<'a>(
    check: &mut Check,
    raw: &'a Section<RawPatch>,
    ports: &BuiltPorts,
    uses: &mut Uses<'a>,
) -> Option<[String; 2]> {
    let list = check.required(&raw.span, "ports", &raw.ports, "ports = [\"a\", \"b\"]")?;
    if list.len() != 2 {
        check.error(
            &list.span,
            format!("a patch joins two ports, not {}", list.len()),
            if list.len() > 2 { "use a [[bridge]] for more than two" } else { "name two ports" },
        );
    }
    for at in &list.value {
        let Some(built) = join(check, ports, at, &at.span, uses) else { continue };
        if let Some(span) = &built.vlan_span {
            check.problems.push(
                Problem::error(
                    span,
                    format!("port `{}` is patched, and a patch does not look at VLANs", at.value),
                    "remove the VLAN option, or join the port to a [[bridge]]",
                )
                .and_at(&at.span, "patched here"),
            );
        }
    }
    let [a, b] = list.as_slice() else { return None };
    Some([a.value.clone(), b.value.clone()])
}

fn bridge<'a>(
    check: &mut Check,
    raw: &'a Section<RawBridge>,
    own: &[&'a At<String>],
    ports: &BuiltPorts,
    uses: &mut Uses<'a>,
) -> BridgeSpec {
    let name = name(check, &raw.span, &raw.name, "bridge").value;
    let mut members: Vec<(&At<String>, &BuiltPort)> = Vec::new();
    let listed = raw.ports.iter().flat_map(|list| &list.value).chain(own.iter().copied());
    members.extend(listed.filter_map(|at| Some((at, join(check, ports, at, &at.span, uses)?))));
    let count = raw.ports.as_ref().map_or(0, |list| list.len()) + own.len();
    if count < 2 && !name.is_empty() && !check.is_unread(&raw.span, "ports") {
        check.warn(
            raw.ports.as_ref().map_or(&raw.span, |list| &list.span),
            format!("bridge `{name}` has {count} port(s): no frame can pass it"),
            "name at least two ports",
        );
    }
    let aware = members.iter().find_map(|(at, built)| Some((at, built.vlan_span.as_ref()?)));
    if let Some((because, vlan_span)) = aware {
        for (at, built) in members.iter().filter(|(_, built)| built.vlan_span.is_none()) {
            if ["vlan", "trunk"].iter().any(|key| check.is_unread(&built.table, key)) {
                continue;
            }
            check.problems.push(
                Problem::error(
                    &at.span,
                    format!(
                        "port `{}` does not say which VLANs it carries, and bridge `{name}` keeps VLANs apart",
                        at.value
                    ),
                    format!("add `vlan = N` or `trunk = \"all\"` to port `{}`", at.value),
                )
                .and_at(vlan_span, format!("because port `{}` does", because.value)),
            );
        }
    }
    let mut seen: HashMap<(MacAddr, u16), &Range<usize>> = HashMap::new();
    let mut statics = Vec::new();
    for raw in &raw.statics {
        let Some(entry) = static_entry(check, raw, &name, &members) else { continue };
        if let Some(first) = seen.insert((entry.mac, entry.vlan), &raw.span) {
            check.problems.push(
                Problem::error(&raw.span, format!("there are two static entries for {}", entry.mac), "remove one")
                    .and_at(first, "the first one"),
            );
        }
        statics.push(entry);
    }
    if let Some(one_more) = raw.statics.get(MOST_STATICS) {
        check.error(
            &one_more.span,
            format!("bridge `{name}` has {} static entries", raw.statics.len()),
            format!("a bridge has room for {MOST_STATICS}; let it learn the others"),
        );
    }
    let ageing = check.number("ageing", &raw.ageing, &raw::AGEINGS, raw::DEFAULT_AGEING);
    let learned_limit =
        check.number("learned-limit", &raw.learned_limit, &raw::LEARNED_LIMITS, raw::DEFAULT_LEARNED_LIMIT);
    BridgeSpec {
        name,
        ports: members.iter().map(|(at, _)| at.value.clone()).collect(),
        ageing: Duration::from_secs(ageing as u64),
        learned_limit: learned_limit as u32,
        forwards_reserved: raw.forward_reserved.as_ref().is_some_and(|at| at.value),
        statics,
        flows: None,
    }
}

fn static_entry(
    check: &mut Check,
    raw: &Section<RawStatic>,
    bridge: &str,
    members: &[(&At<String>, &BuiltPort)],
) -> Option<StaticEntry> {
    let mac =
        check.required(&raw.span, "mac", &raw.mac, "mac = \"02:00:00:00:00:01\"").and_then(|at| check.unicast(at));
    let at = check.required(&raw.span, "port", &raw.port, "port = \"a\"")?;
    let Some((_, built)) = members.iter().find(|(member, _)| member.value == at.value) else {
        let known: Vec<&str> = members.iter().map(|(at, _)| at.as_str()).collect();
        check.error(
            &at.span,
            format!("port `{}` is not in bridge `{bridge}`", at.value),
            format!("name one of: {}", known.join(", ")),
        );
        return None;
    };
    let vlan = static_vlan(check, raw, &at.value, &built.spec.vlan)?;
    Some(StaticEntry { mac: mac?, vlan, port: at.value.clone() })
}

fn static_vlan(check: &mut Check, raw: &Section<RawStatic>, port: &str, carried: &Vlan) -> Option<u16> {
    let Some(at) = raw.vlan.as_ref() else {
        return match carried {
            Vlan::Ignore => Some(0),
            Vlan::Access(vid) => Some(*vid),
            Vlan::Trunk(_) => {
                if !check.is_unread(&raw.span, "vlan") {
                    let message = format!("`vlan` is missing: port `{port}` is a trunk port");
                    check.error(&raw.span, message, "add `vlan = N`, one of the trunk's");
                }
                None
            }
        };
    };
    if !raw::VIDS.contains(&at.value) {
        check.number("vlan", &raw.vlan, &raw::VIDS, 0);
        return None;
    }
    let vid = at.value as u16;
    if *carried == Vlan::Ignore {
        let message = format!("port `{port}` knows nothing of VLANs");
        check.error(&at.span, message, "remove `vlan`, or give the ports of the bridge `vlan` or `trunk`");
        return None;
    }
    if !carried.carries(vid) {
        check.error(&at.span, format!("port `{port}` does not carry VLAN {vid}"), "give a VLAN that it carries");
        return None;
    }
    Some(vid)
}
