//! Validates and builds `[[mapping]]`: which physical port receives into which guest's buffers.

use super::check::Check;
use super::ports::{BuiltPort, BuiltPorts};
use super::raw::{At, COPY_BREAKS, MappingMode, MappingSteering, RawFile, RawMapping, Section, Several};
use engine::port::Capabilities;
use engine::port::kinds::KINDS;
use engine::spec::{BridgeSpec, MOST_STEERED, MappingSpec, PortQueues, Sharing, Tenancy, Vlan};
use settings::Problem;
use std::ops::Range;

pub(super) fn build(
    check: &mut Check,
    file: &RawFile,
    ports: &BuiltPorts,
    patches: &mut Vec<[String; 2]>,
    bridges: &[BridgeSpec],
) -> Vec<MappingSpec> {
    let mut uses = Vec::new();
    let built = file.mappings.iter().filter_map(|raw| {
        let [from_end, to_end] = ends(check, raw, ports, &mut uses)?;
        let (from, to) = (from_end.queues(), to_end.queues());
        let pass_through = raw.mode.as_ref().is_some_and(|at| at.value == MappingMode::PassThrough);
        let tenancy = if pass_through {
            nobody_else(check, raw);
            Tenancy::Trust(Vec::new())
        } else if let Some(bridge) = bridges.iter().find(|b| [&from, &to].iter().all(|e| b.ports.contains(&e.port))) {
            tenancy(check, raw, ports, bridge, [&from_end, &to_end])
        } else {
            check.error(
                &raw.span,
                format!("`{}` and `{}` are not in one bridge", from.port, to.port),
                "join them by a [[bridge]], or use mode = \"pass-through\"",
            );
            Tenancy::Trust(Vec::new())
        };
        let copy_break =
            raw.copy_break.as_ref().filter(|at| check.within("copy-break", at.value, &at.span, &COPY_BREAKS));
        let copy_break = copy_break.map(|at| at.value as u32);
        Some(MappingSpec { from, to, pass_through, tenancy, copy_break })
    });
    let built: Vec<_> = built.collect();
    let whole = built.iter().filter(|mapping| mapping.pass_through && !mapping.is_of_one());
    patches.extend(whole.map(|mapping| [mapping.from.port.clone(), mapping.to.port.clone()]));
    uses.iter().for_each(|used| rest(check, ports, &built, used));
    built
}

/// Warns of the other queues of a physical port if one is patched by itself and they are not.
fn rest(check: &mut Check, ports: &BuiltPorts, built: &[MappingSpec], Use { queues: end, span }: &Use<'_>) {
    let patched: Vec<_> =
        built.iter().filter(|mapping| mapping.pass_through && mapping.from.port == end.port).collect();
    let is_first = patched.first().is_some_and(|mapping| mapping.from == *end && end.queue.is_some());
    let Some(port) = ports.list.iter().find(|port| port.spec.name == end.port).filter(|_| is_first) else { return };
    let is_free = |queue: &usize| !patched.iter().any(|mapping| mapping.from.covers(&end.port, *queue));
    let free = (0..port.spec.driver.queues()).filter(is_free);
    let free: Vec<_> = free.map(|queue| format!("`{}`", PortQueues::one(&end.port, queue))).collect();
    if !free.is_empty() {
        let message = format!("frames that arrive in {} are dropped", free.join(", "));
        check.warn(span, message, "map these queues, too, or keep frames out of them by rules of the NIC");
    }
}

/// Queues that a mapping uses.
struct Use<'a> {
    queues: PortQueues,
    /// The place where it says so.
    span: &'a Range<usize>,
}

/// One end of a mapping.
struct End<'a, 'b> {
    at: &'a At<String>,
    built: &'b BuiltPort,
    queue: Option<usize>,
}

impl End<'_, '_> {
    fn queues(&self) -> PortQueues {
        PortQueues { port: self.built.spec.name.clone(), queue: self.queue }
    }
}

fn ends<'a, 'b>(
    check: &mut Check,
    raw: &'a Section<RawMapping>,
    ports: &'b BuiltPorts,
    uses: &mut Vec<Use<'a>>,
) -> Option<[End<'a, 'b>; 2]> {
    let from = check.required(&raw.span, "from", &raw.from, "from = \"wan\"");
    let to = check.required(&raw.span, "to", &raw.to, "to = \"fw\"");
    let from = end(check, ports, from?, uses, "receives into a guest's buffers", |can| can.lends);
    let to = end(check, ports, to?, uses, "has a guest that posts buffers", |can| can.has_guest);
    let (from, to) = (from?, to?);
    if to.built.spec.sharing.as_ref().is_some_and(|sharing| sharing.way == Sharing::Locked) {
        let message =
            format!("workers take turns at port `{}`, and none takes back what the NIC has sent", to.built.spec.name);
        check.error(&to.at.span, message, "share the guest's queues by rx-sharing = \"static-role\"");
    }
    let count = from.built.spec.driver.queues();
    if from.queue.is_none() && to.queue.is_some() && count > 1 {
        let name = &from.built.spec.name;
        let message = format!("`to` is one queue, and port `{name}` has {count}");
        check.error(&from.at.span, message, format!("name one of them, as in from = \"{name}.0\""));
    }
    Some([from, to])
}

/// Reports `trust` and `steering` in pass-through mode, where no other port shares the physical port.
fn nobody_else(check: &mut Check, raw: &RawMapping) {
    let spans =
        [("trust", raw.trust.as_ref().map(|at| &at.span)), ("steering", raw.steering.as_ref().map(|at| &at.span))];
    for (key, span) in spans {
        if let Some(span) = span {
            let message = format!("`{key}` is for mappings in a bridge: all frames of this port are the guest's");
            check.error(span, message, "remove it");
        }
    }
}

/// Determines whose frames may be received into the guest's buffers.
fn tenancy(
    check: &mut Check,
    raw: &RawMapping,
    ports: &BuiltPorts,
    bridge: &BridgeSpec,
    ends: [&End<'_, '_>; 2],
) -> Tenancy {
    if let (Some(trust), Some(steering)) = (raw.trust.as_ref(), raw.steering.as_ref()) {
        let help = "steering keeps the frames of others out, so nobody has to trust the guest with them: remove one";
        check.problems.push(
            Problem::error(&steering.span, "`steering` and `trust` exclude each other", help)
                .and_at(&trust.span, "trusted here"),
        );
    }
    if let Some(at) = raw.steering.as_ref() {
        if at.value == MappingSteering::Given {
            return Tenancy::Steered;
        }
        steerable(check, &at.span, ports, bridge, ends);
        return Tenancy::SteerByMac;
    }
    match raw.trust.as_ref().map(|at| &at.value) {
        None => Tenancy::Trust(Vec::new()),
        Some(Several::All) => Tenancy::TrustAll,
        Some(Several::List(list)) => {
            for at in list.iter().filter(|at| !bridge.ports.contains(&at.value)) {
                let help = format!("name ports of the bridge: {}", bridge.ports.join(", "));
                check.error(&at.span, format!("port `{}` is not in bridge `{}`", at.value, bridge.name), help);
            }
            Tenancy::Trust(list.iter().map(|at| at.value.clone()).collect())
        }
    }
}

/// Reports any reason why the switch can't steer by the guest's addresses.
fn steerable(
    check: &mut Check,
    span: &Range<usize>,
    ports: &BuiltPorts,
    bridge: &BridgeSpec,
    [from_end, to_end]: [&End<'_, '_>; 2],
) {
    let (from, to) = (&from_end.built.spec, &to_end.built.spec);
    let given = "let the NIC steer and say steering = \"given\", or use `trust`";
    if let Err(why) = from.driver.steers() {
        check.error(span, format!("port `{}` {why}", from.name), given);
    }
    if from_end.queue.is_some() && from.driver.queues() > 1 {
        let message = format!("frames for `{}` can arrive in all queues of `{}`", to.name, from.name);
        check.error(span, message, "map the whole port, or let the NIC steer and say steering = \"given\"");
    }
    let aware = |name: &String| ports.list.iter().any(|p| p.spec.name == *name && p.spec.vlan != Vlan::Ignore);
    if bridge.ports.iter().any(aware) {
        let message = format!("bridge `{}` keeps VLANs apart, and steering by MAC address does not", bridge.name);
        check.error(span, message, given);
    }
    match bridge.statics.iter().filter(|entry| entry.port == to.name).count() {
        0 => check.error(
            span,
            format!("bridge `{}` does not say which addresses `{}` has", bridge.name, to.name),
            format!("add a [[bridge.static]] with port = \"{}\" for each `mac` that it has", to.name),
        ),
        count if count > MOST_STEERED => check.error(
            span,
            format!("`{}` has {count} static addresses, and frames can be steered by {MOST_STEERED}", to.name),
            given,
        ),
        _ => {}
    }
}

/// Returns one end of a mapping, if the port fits and its queues are in no other mapping.
fn end<'a, 'b>(
    check: &mut Check,
    ports: &'b BuiltPorts,
    at: &'a At<String>,
    uses: &mut Vec<Use<'a>>,
    wanted: &str,
    fits: impl Fn(Capabilities) -> bool,
) -> Option<End<'a, 'b>> {
    let (built, queue) = ports.find_queues(check, at)?;
    let end = End { at, built, queue };
    let own = end.queues();
    let overlaps = |other: &&Use<'_>| match queue {
        Some(queue) => other.queues.covers(&own.port, queue),
        None => other.queues.port == own.port,
    };
    if let Some(other) = uses.iter().find(overlaps) {
        let (what, help) = match (own.queue, other.queues.queue) {
            (Some(_), Some(_)) => (format!("queue `{own}`"), "remove it from one of them"),
            _ => (format!("port `{}`", own.port), "remove it from one of them, or name one queue of it in each"),
        };
        let problem = Problem::error(&at.span, format!("{what} is in two mappings"), help);
        check.problems.push(problem.and_at(other.span, "mapped here"));
        return None;
    }
    uses.push(Use { queues: own, span: &at.span });
    let can = built.spec.driver.capabilities();
    if !fits(can) {
        let kinds: Vec<_> = KINDS.iter().filter(|(_, kind)| fits(kind.capabilities)).map(|(name, _)| *name).collect();
        let help = match can.has_guest {
            true => "join two guests by a [[patch]], which copies each frame once",
            false => "name a port with that driver",
        };
        let message =
            format!("port `{}` is not a port that {wanted}: a port of driver {}", at.value, kinds.join(" or "));
        check.error(&at.span, message, help);
        return None;
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use std::path::Path;

    /// Parses a bridge of `wan`, `fw` and `other` with the given port `wan`, mapping and remaining text.
    fn parse(wan: &str, mapping: &str, rest: &str) -> Result<Tenancy, String> {
        let text = format!(
            "[[port]]\nname = \"wan\"\n{wan}
             [[port]]\nname = \"fw\"\ndriver = \"vhost-user\"\nsocket = \"fw\"
             [[port]]\nname = \"other\"\ndriver = \"vhost-user\"\nsocket = \"other\"
             [[mapping]]\nfrom = \"wan\"\nto = \"fw\"\n{mapping}
             [[bridge]]\nname = \"br0\"\nports = [\"wan\", \"fw\", \"other\"]\n{rest}"
        );
        let parsed = Config::parse(Path::new("m.toml"), &text);
        parsed.map(|(config, _)| config.spec.mappings[0].tenancy.clone()).map_err(|report| report.to_string())
    }

    const XDP: &str = "driver = \"af_xdp\"\ninterface = \"eth1\"";
    const VIRTIO: &str = "driver = \"virtio-user\"\nsocket = \"nic\"";
    const OWN: &str = "[[bridge.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"fw\"";
    const OTHERS: &str = "[[bridge.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"other\"";

    #[test]
    fn valid_mappings_are_accepted() {
        for (mapping, tenancy) in [
            ("", Tenancy::Trust(vec![])),
            ("trust = []", Tenancy::Trust(vec![])),
            ("trust = [\"other\"]", Tenancy::Trust(vec!["other".into()])),
            ("trust = \"all\"", Tenancy::TrustAll),
            ("steering = \"given\"", Tenancy::Steered),
        ] {
            assert_eq!(parse(VIRTIO, mapping, ""), Ok(tenancy), "{mapping}");
        }
        assert_eq!(parse(XDP, "steering = \"mac\"", OWN), Ok(Tenancy::SteerByMac));
    }

    /// Parses a NIC with three queues, two guests and these mappings; returns the ends and the report.
    fn parse_queues(mappings: &str) -> Result<(Vec<String>, String), String> {
        let text = format!(
            "[[port]]\nname = \"wan\"\ndriver = \"af_xdp\"\ninterface = \"eth1\"\nqueues = 3
             [[port]]\nname = \"fw\"\ndriver = \"vhost-user\"\nsocket = \"fw\"
             [[port]]\nname = \"dpi\"\ndriver = \"vhost-user\"\nsocket = \"dpi\"\n{mappings}"
        );
        let (config, report) = Config::parse(Path::new("m.toml"), &text).map_err(|report| report.to_string())?;
        let ends = config.spec.mappings.iter().map(|mapping| format!("{} {}", mapping.from, mapping.to));
        assert!(config.spec.patches.is_empty());
        Ok((ends.collect(), report.to_string()))
    }

    fn pass(from: &str, to: &str) -> String {
        format!("[[mapping]]\nfrom = \"{from}\"\nto = \"{to}\"\nmode = \"pass-through\"\n")
    }

    #[test]
    fn queues_of_one_nic_go_to_several_guests() {
        let (ends, report) = parse_queues(&(pass("wan.0", "fw") + &pass("wan.2", "dpi.1"))).unwrap();
        assert_eq!(ends, ["wan.0 fw", "wan.2 dpi.1"]);
        assert!(report.contains("frames that arrive in `wan.1` are dropped"), "{report}");
        let (_, report) =
            parse_queues(&(pass("wan.0", "fw.0") + &pass("wan.1", "fw.1") + &pass("wan.2", "dpi"))).unwrap();
        assert!(!report.contains("is dropped"), "{report}");
        for (mappings, part) in [
            (pass("wan.0", "fw") + &pass("wan.0", "dpi"), "queue `wan.0` is in two mappings"),
            (pass("wan.0", "fw") + &pass("wan", "dpi"), "port `wan` is in two mappings"),
            (pass("wan", "fw") + &pass("wan.1", "dpi"), "port `wan` is in two mappings"),
            (pass("wan.0", "fw") + &pass("wan.1", "fw.1"), "port `fw` is in two mappings"),
            (pass("wan.3", "fw"), "port `wan` has no queue `3`"),
            (pass("wan", "fw.1"), "`to` is one queue, and port `wan` has 3"),
            (pass("wan.0", "fw") + "[[patch]]\nports = [\"wan\", \"dpi\"]", "already joined to something"),
            (pass("wan.0", "fw") + "[[mirror]]\nfrom = [\"dpi\"]\nto = \"wan\"", "and is also mapped"),
            (
                "[[mapping]]\nfrom = \"wan.0\"\nto = \"fw\"\nsteering = \"mac\"\n
                 [[bridge]]\nname = \"br\"\nports = [\"wan\", \"fw\"]\n"
                    .to_owned()
                    + OWN,
                "frames for `fw` can arrive in all queues of `wan`",
            ),
        ] {
            let report = parse_queues(&mappings).unwrap_err();
            assert!(report.contains(part), "{mappings}: {report}");
        }
    }

    #[test]
    fn invalid_mappings_are_refused() {
        let zero_copy = [XDP, "\nmode = \"zero-copy\""].concat();
        let vlan = [XDP, "\ntrunk = \"all\""].concat();
        let many: String = (0..=MOST_STEERED)
            .map(|n| format!("[[bridge.static]]\nmac = \"02:00:00:00:01:{n:02x}\"\nport = \"fw\"\n"))
            .collect();
        for (wan, mapping, rest, part) in [
            (XDP, "trust = \"wan\"", "", "expected an array of port names or \"all\""),
            (XDP, "trust = [\"nobody\"]", "", "port `nobody` is not in bridge `br0`"),
            (XDP, "trust = \"all\"\nsteering = \"mac\"", OWN, "`steering` and `trust` exclude each other"),
            (XDP, "steering = \"mac\"", "", "does not say which addresses `fw` has"),
            (XDP, "steering = \"mac\"", OTHERS, "does not say which addresses `fw` has"),
            (XDP, "steering = \"mac\"", &many, "`fw` has 65 static addresses"),
            (VIRTIO, "steering = \"mac\"", OWN, "port `wan` is of a driver whose frames the switch cannot steer"),
            (&zero_copy, "steering = \"mac\"", OWN, "port `wan` is in zero-copy mode"),
            (&vlan, "steering = \"mac\"", OWN, "bridge `br0` keeps VLANs apart"),
            (XDP, "mode = \"pass-through\"\ntrust = \"all\"", "", "`trust` is for mappings in a bridge"),
            (XDP, "mode = \"pass-through\"\nsteering = \"given\"", "", "`steering` is for mappings in a bridge"),
        ] {
            let report = parse(wan, mapping, rest).unwrap_err();
            assert!(report.contains(part), "{mapping}: {report}");
        }
    }
}
