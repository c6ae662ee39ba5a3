//! Turns the keys of a file into a [`Config`], or into a list of all its problems.

use super::check::Check;
use super::control_socket::default_control_socket;
use super::ports::BuiltPorts;
use super::raw::{self, RawFile};
use super::reach::Reach;
use super::types::Config;
use super::value::ListenAddress;
use super::{
    acceleration, aggregation, confinement, dpdk, exchanges, forwarding, mappings, mirrors, openflow, ports, workers,
};
use engine::spec::{AggregationSpec, FailMode, Spec};
use settings::{Checker, Report};
use std::path::{Path, PathBuf};

/// Reads, checks and builds; `reach` is that of the running switch, if there is one and it is confined. It `examines` what is in the
/// files of ports, if asked.
pub(super) fn build(
    path: &Path,
    text: &str,
    reach: Option<&Reach>,
    examines: bool,
) -> Result<(Config, Report), Report> {
    let read = settings::read_tagged::<RawFile>(text, &raw::tagged());
    let mut check = Check::new(path, reach, examines, Checker::new(read.problems, read.unread));
    let config = read.file.map(|file| config(&mut check, path, &file));
    let report = Report::new(path, text, check.into_problems());
    match config {
        Some(config) if !report.has_errors() => Ok((config, report)),
        _ => Err(report),
    }
}

fn config(check: &mut Check, path: &Path, file: &RawFile) -> Config {
    let dpdk = dpdk::build(check, file);
    check.listed = dpdk.as_ref().map(|dpdk| dpdk.devices.clone());
    // Without a section there is one worker.
    let ports = ports::build(check, &file.ports, file.workers.len().max(1));
    let (mut patches, bridges) = forwarding::build(check, file, &ports, fail_mode(file));
    let mappings = mappings::build(check, file, &ports, &mut patches, &bridges);
    let exchanges = exchanges::build(check, file, &ports);
    let joined = mirrors::Joined { patches: &patches, bridges: &bridges, mappings: &mappings };
    let mirrors = mirrors::build(check, file, &ports, joined);
    let aggregation = aggregation(check, file, &ports);
    let workers = workers::build(check, &file.workers, &ports);
    if file.ports.is_empty() && !check.is_unread(&(0..0), "port") {
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
