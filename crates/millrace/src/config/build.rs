//! Turns the keys of a file into a [`Config`], or into a list of all its problems.

use super::check::Check;
use super::control_socket::default_control_socket;
use super::forwarding::Joints;
use super::ports::BuiltPorts;
use super::raw::{self, RawFile};
use super::reach::Reach;
use super::types::Config;
use super::value::ListenAddress;
use super::{
    acceleration, aggregation, confinement, dpdk, exchanges, forwarding, mappings, mirrors, openflow, ports, workers,
};
use engine::spec::{AggregationSpec, FailMode, Spec};
use settings::{Checker, Report, Severity};
use std::path::{Path, PathBuf};

/// Reads, checks and builds; `reach` is that of the running switch, if there is one and it is confined. It `examines` what is in the
/// files of ports, if asked.
pub(super) fn build(
    path: &Path,
    text: &str,
    reach: Option<&Reach>,
    examines: bool,
) -> Result<(Config, RawFile, Report), Report> {
    let read = settings::read_tagged::<RawFile>(text, &raw::tagged());
    let mut check = Check::new(path, reach, examines, Checker::new(read.problems, read.unread));
    let built = read.file.map(|file| (config(&mut check, path, &file, &[]), file));
    let report = Report::new(path, text, check.into_problems());
    match built {
        Some((config, file)) if !report.has_errors() => Ok((config, file, report)),
        _ => Err(report),
    }
}

/// Checks a part by itself; `reach` is that of the switch, if it is confined. Returns the problems, without places.
pub(super) fn check_part(
    path: &Path,
    file: &RawFile,
    part: &RawFile,
    reach: Option<&Reach>,
) -> Result<(), Vec<String>> {
    let mut check = Check::new(path, reach, false, Checker::new(Vec::new(), Vec::new()));
    check.listed = dpdk::build(&mut check, file).map(|dpdk| dpdk.devices);
    ports::build(&mut check, part.ports.iter(), workers_of(file));
    errors(check)
}

/// Builds the configuration of a file that was checked by itself, with `parts` that were added to it; `reach` is for the last one
/// of these, if there is one. Returns the problems, without places.
pub(super) fn build_with(
    path: &Path,
    file: &RawFile,
    parts: &[&RawFile],
    reach: Option<&Reach>,
) -> Result<Config, Vec<String>> {
    if let Some(new) = parts.last() {
        check_part(path, file, new, reach)?;
    }
    let mut check = Check::new(path, None, false, Checker::new(Vec::new(), Vec::new()));
    let config = config(&mut check, path, file, parts);
    errors(check).map(|()| config)
}

/// Returns the errors that were found, a line each.
fn errors(check: Check<'_>) -> Result<(), Vec<String>> {
    let errors = check.into_problems().into_iter().filter(|problem| problem.severity == Severity::Error);
    let lines: Vec<_> = errors.map(|problem| format!("{}; {}", problem.message, problem.help)).collect();
    if lines.is_empty() { Ok(()) } else { Err(lines) }
}

/// Returns the number of workers: without a section there is one.
fn workers_of(file: &RawFile) -> usize {
    file.workers.len().max(1)
}

fn config(check: &mut Check, path: &Path, file: &RawFile, parts: &[&RawFile]) -> Config {
    let dpdk = dpdk::build(check, file);
    check.listed = dpdk.as_ref().map(|dpdk| dpdk.devices.clone());
    let all = || std::iter::once(file).chain(parts.iter().copied());
    let ports = ports::build(check, all().flat_map(|file| &file.ports), workers_of(file));
    let joints = Joints {
        patches: all().flat_map(|file| &file.patches).collect(),
        bridges: all().flat_map(|file| &file.bridges).collect(),
        members: all().flat_map(|file| &file.ports).collect(),
    };
    let (mut patches, bridges) = forwarding::build(check, file, &joints, &ports, fail_mode(file));
    let mappings = mappings::build(check, file, &ports, &mut patches, &bridges);
    let exchanges = exchanges::build(check, file, &ports);
    let joined = mirrors::Joined { patches: &patches, bridges: &bridges, mappings: &mappings };
    let mirrors = mirrors::build(check, file, &ports, joined);
    let aggregation = aggregation(check, file, &ports);
    let workers = workers::build(check, &file.workers, &ports);
    let adds = file.control.as_ref().is_some_and(|control| control.ports.is_some());
    if file.ports.is_empty() && !adds && !check.is_unread(&(0..0), "port") {
        check.warn(&(0..0), "no ports: the switch will have nothing to do", "add a [[port]] section");
    }
    let control = control(check, file);
    check.recorded_elsewhere(&control);
    let openflow = openflow::build(check, file, &control);
    let (ports, configuration) = (ports.into_specs(), Some(path.to_owned()));
    Config {
        spec: Spec {
            ports,
            patches,
            bridges,
            mappings,
            exchanges,
            mirrors,
            aggregation,
            workers,
            acceleration: acceleration::build(&file.acceleration),
            configuration,
        },
        control,
        kept: file.control.as_ref().and_then(|control| Some(check.path(control.ports.as_ref()?))),
        makes_directories: file
            .control
            .as_ref()
            .is_some_and(|control| control.make_directories.as_ref().is_some_and(|at| at.value)),
        metrics: metrics(check, file),
        openflow,
        dpdk,
        confinement: confinement::build(check, file.confinement.as_ref()),
    }
}

/// Returns how a bridge with `openflow` forwards while there are no flows, if there is an OpenFlow channel.
fn fail_mode(file: &RawFile) -> Option<FailMode> {
    let mode = file.openflow.as_ref()?.fail_mode.as_ref().map(|at| at.value).unwrap_or_default();
    Some(match mode {
        raw::FailMode::Standalone => FailMode::Standalone,
        raw::FailMode::Secure => FailMode::Secure,
    })
}

fn aggregation(check: &mut Check, file: &RawFile, ports: &BuiltPorts) -> Option<AggregationSpec> {
    let aggregation = aggregation::build(check, file.aggregation.as_ref(), ports)?;
    let relays = file.openflow.as_ref().and_then(|openflow| openflow.relay.as_ref()).is_some_and(|at| at.value);
    Some(AggregationSpec { relay: relays.then_some(aggregation.mac), ..aggregation.spec() })
}

fn control(check: &mut Check, file: &RawFile) -> PathBuf {
    match file.control.as_ref().and_then(|control| control.socket.as_ref()) {
        Some(socket) => check.unix_socket(socket, true),
        None => default_control_socket(&check.directory),
    }
}

fn metrics(check: &mut Check, file: &RawFile) -> Option<ListenAddress> {
    let section = file.metrics.as_ref()?;
    let listen = check.required(&section.span, "listen", &section.listen, "listen = \"127.0.0.1:9464\"")?;
    check.listen(listen, 9464)
}
