//! Judging and building `[[mapping]]`: which physical port receives into which guest's buffers.

use super::build::{BuiltPort, BuiltPorts, Check};
use super::raw::{At, MappingMode, RawFile, RawMapping, Section};
use super::{Bridge, Driver, Mapping, Patch};
use settings::Problem;
use std::collections::HashMap;
use std::ops::Range;

/// Builds all mappings. One in pass-through mode joins its ports by a patch as well.
pub(super) fn build(
    check: &mut Check,
    file: &RawFile,
    ports: &BuiltPorts,
    (patches, bridges): (&mut Vec<Patch>, &[Bridge]),
) -> Vec<Mapping> {
    let mut uses = HashMap::new();
    let built = file.mappings.iter().filter_map(|raw| {
        let mapping = mapping(check, raw, ports, &mut uses)?;
        if mapping.pass_through {
            patches.push(Patch { ports: [mapping.from.clone(), mapping.to.clone()] });
        } else if !bridges.iter().any(|b| b.ports.contains(&mapping.from) && b.ports.contains(&mapping.to)) {
            check.error(
                &raw.span,
                format!("`{}` and `{}` are not in one bridge", mapping.from, mapping.to),
                "join them by a [[bridge]], or use mode = \"pass-through\"",
            );
        }
        Some(mapping)
    });
    built.collect()
}

fn mapping<'a>(
    check: &mut Check,
    raw: &'a Section<RawMapping>,
    ports: &BuiltPorts,
    uses: &mut HashMap<&'a str, &'a Range<usize>>,
) -> Option<Mapping> {
    let from = check.required(&raw.span, "from", &raw.from, "from = \"wan\"");
    let to = check.required(&raw.span, "to", &raw.to, "to = \"fw\"");
    let physical = "receives into a guest's buffers: an af_xdp or virtio-user port";
    let from = end(check, ports, from?, uses, physical, |driver| {
        matches!(driver, Driver::AfXdp { .. } | Driver::VirtioUser { .. })
    });
    let to = end(check, ports, to?, uses, "has a guest that posts buffers: a vhost-user port", |driver| {
        matches!(driver, Driver::VhostUser { .. })
    });
    let mode = raw.mode.as_ref().map_or(MappingMode::Bridge, |at| at.value);
    let (from, to) = (from?.port.name.clone(), to?.port.name.clone());
    Some(Mapping { from, to, pass_through: mode == MappingMode::PassThrough })
}

/// One end of a mapping, if the port is fit for it and in no other mapping.
fn end<'a, 'b>(
    check: &mut Check,
    ports: &'b BuiltPorts,
    at: &'a At<String>,
    uses: &mut HashMap<&'a str, &'a Range<usize>>,
    wanted: &str,
    fits: impl Fn(&Driver) -> bool,
) -> Option<&'b BuiltPort> {
    let built = ports.find(check, at, &at.span)?;
    if let Some(first) = uses.insert(&at.value, &at.span) {
        check.problems.push(
            Problem::error(&at.span, format!("port `{}` is in two mappings", at.value), "remove it from one of them")
                .and_at(first, "mapped here"),
        );
        return None;
    }
    if !fits(&built.port.driver) {
        let help = match built.port.driver {
            Driver::VhostUser { .. } => "join two guests by a [[patch]], which copies each frame once",
            _ => "name a port with that driver",
        };
        check.error(&at.span, format!("port `{}` is no port that {wanted}", at.value), help);
        return None;
    }
    Some(built)
}
