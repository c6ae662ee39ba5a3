//! Validates and builds `[[mirror]]`: whose frames are copied to which port.

use super::check::Check;
use super::ports::BuiltPorts;
use super::raw::{self, At, RawFile, RawMirror, Section};
use engine::spec::{BridgeSpec, MappingSpec, MirrorDirection, MirrorPoint, MirrorSpec};
use settings::Problem;
use std::collections::HashMap;
use std::ops::Range;

/// Connections that ports for copies must not have.
#[derive(Clone, Copy)]
pub(super) struct Joined<'s> {
    pub(super) patches: &'s [[String; 2]],
    pub(super) bridges: &'s [BridgeSpec],
    pub(super) mappings: &'s [MappingSpec],
}

pub(super) fn build(check: &mut Check, file: &RawFile, ports: &BuiltPorts, joined: Joined<'_>) -> Vec<MirrorSpec> {
    let mirrored: HashMap<&str, &Range<usize>> =
        file.mirrors.iter().flat_map(from).map(|at| (at.as_str(), &at.span)).collect();
    let mut pairs = HashMap::new();
    let built = file.mirrors.iter().filter_map(|raw| {
        let listed = check.required(&raw.span, "from", &raw.from, "from = [\"a\"]");
        if let Some(list) = listed.filter(|list| list.is_empty()) {
            check.error(&list.span, "the mirror copies the frames of no port", "name at least one");
        }
        let to = check.required(&raw.span, "to", &raw.to, "to = \"probe\"").filter(|to| {
            let known = ports.find(check, to, &to.span).is_some();
            if known {
                free(check, to, joined);
                not_mirrored(check, to, &mirrored);
            }
            known
        });
        for at in from(raw) {
            if ports.find(check, at, &at.span).is_none() {
                continue;
            }
            let Some(first) = to.and_then(|to| pairs.insert((at.as_str(), to.as_str()), &at.span)) else { continue };
            let message = format!("frames of port `{}` are copied there twice", at.value);
            let problem = Problem::error(&at.span, message, "name it once only").and_at(first, "the first time");
            check.problems.push(problem);
        }
        Some(MirrorSpec {
            from: from(raw).map(|at| at.value.clone()).collect(),
            to: to?.value.clone(),
            direction: match raw.direction.as_ref().map(|at| at.value) {
                None | Some(raw::MirrorDirection::Both) => MirrorDirection::Both,
                Some(raw::MirrorDirection::In) => MirrorDirection::In,
                Some(raw::MirrorDirection::Out) => MirrorDirection::Out,
            },
            at: match raw.at.as_ref().map(|at| at.value) {
                None | Some(raw::MirrorPoint::Wire) => MirrorPoint::Wire,
                Some(raw::MirrorPoint::Forward) => MirrorPoint::Forward,
            },
        })
    });
    built.collect()
}

fn from(raw: &Section<RawMirror>) -> impl Iterator<Item = &At<String>> {
    raw.from.iter().flat_map(|list| &list.value)
}

/// Reports a port for copies that also gets other frames.
fn free(check: &mut Check, to: &At<String>, Joined { patches, bridges, mappings }: Joined<'_>) {
    let mapped = |mapping: &MappingSpec| [&mapping.from, &mapping.to].iter().any(|end| end.port == to.value);
    let bridge = bridges.iter().find(|bridge| bridge.ports.contains(&to.value));
    let joined = match bridge {
        Some(bridge) => format!("in bridge `{}`", bridge.name),
        None if patches.iter().any(|pair| pair.contains(&to.value)) => "patched".to_owned(),
        None if mappings.iter().any(mapped) => "mapped".to_owned(),
        None => return,
    };
    let message = format!("port `{}` gets the copies of a mirror, and is also {joined}", to.value);
    check.error(&to.span, message, "add a [[port]] that gets only the copies, and name it here");
}

/// Reports a port for copies whose own frames are copied.
fn not_mirrored(check: &mut Check, to: &At<String>, mirrored: &HashMap<&str, &Range<usize>>) {
    if let Some(place) = mirrored.get(to.as_str()) {
        let message = format!("port `{}` gets the copies of a mirror, and is mirrored itself", to.value);
        let help = "remove it from one of the two: copies are not copied again";
        check.problems.push(Problem::error(&to.span, message, help).and_at(place, "mirrored here"));
    }
}
