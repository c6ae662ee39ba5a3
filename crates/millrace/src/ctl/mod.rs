//! `millrace ctl`: sends a request to a running switch and prints the answer.

mod aggregation;
mod answer;
mod events;
mod exchange;
mod flows;
mod parts;
pub(crate) mod rates;
pub(crate) mod tables;
mod why;

pub use answer::CtlError;

use crate::cli::{CtlOptions, CtlRequest, StatsOptions, WhyOptions};
use crate::config::default_control_socket;
use answer::show;
use api::request::{
    Aggregation, Confinement, Drops, Exchange, Flows, Mac, Mappings, Ports, Reload, Shutdown, Stats, Version, Why,
    Workers,
};
use client::Client;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Runs the request of the command line, and prints the answer to `out`.
pub fn run(options: &CtlOptions, out: &mut dyn Write) -> Result<(), CtlError> {
    let socket = options.socket.clone().unwrap_or_else(find_socket);
    let outcome = match &options.request {
        CtlRequest::Stats(StatsOptions { watch: Some(seconds), count }) => {
            watch(&socket, Duration::from_secs_f64(*seconds), *count, options.json, out)
        }
        request => once(&socket, request, options.json, out),
    };
    match outcome {
        // The reader of the output (a pager, `head`) has closed it.
        Err(CtlError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Returns the first default socket that exists, or the one to name in the error message.
pub(crate) fn find_socket() -> PathBuf {
    let here = Path::new("millrace.sock");
    let usual = default_control_socket(Path::new(""));
    // The switch may run as another user, with another default.
    [usual.as_path(), Path::new("/run/millrace.sock"), Path::new("/run/millrace/millrace.sock"), here]
        .into_iter()
        .find(|path| path.exists())
        .map_or(usual.clone(), Path::to_owned)
}

fn once(socket: &Path, request: &CtlRequest, json: bool, out: &mut dyn Write) -> Result<(), CtlError> {
    let mut client = Client::connect(socket)?;
    let text = match request {
        CtlRequest::Port(request) => parts::port(&mut client, request, json)?,
        CtlRequest::Bridge(request) => parts::bridge(&mut client, request, json)?,
        CtlRequest::Patch(request) => parts::patch(&mut client, request, json)?,
        CtlRequest::Events(options) => return events::run(client, options, json, out),
        CtlRequest::Ports => show(&mut client, &Ports {}, json, |ports| tables::ports(&ports))?,
        CtlRequest::Stats(_) => show(&mut client, &Stats {}, json, |stats| tables::stats(&stats))?,
        CtlRequest::Workers => show(&mut client, &Workers {}, json, |workers| tables::workers(&workers))?,
        CtlRequest::Mac => show(&mut client, &Mac {}, json, |macs| tables::macs(&macs))?,
        CtlRequest::Drops => show(&mut client, &Drops {}, json, |drops| tables::drops(&drops))?,
        CtlRequest::Mappings => show(&mut client, &Mappings {}, json, |mappings| tables::mappings(&mappings))?,
        CtlRequest::Exchange => show(&mut client, &Exchange {}, json, |exchanges| exchange::show(&exchanges))?,
        CtlRequest::Why(WhyOptions { port }) => {
            show(&mut client, &Why { port: port.clone() }, json, |port| why::show(&port))?
        }
        CtlRequest::Aggregation => show(&mut client, &Aggregation {}, json, |table| aggregation::show(&table))?,
        CtlRequest::Flows => show(&mut client, &Flows {}, json, |flows| flows::show(&flows))?,
        CtlRequest::Confinement => show(&mut client, &Confinement {}, json, |confined| tables::confinement(&confined))?,
        CtlRequest::Reload => return reload(&mut client, json, out),
        CtlRequest::Shutdown => show(&mut client, &Shutdown {}, json, |()| "The switch is stopping.".to_owned())?,
        CtlRequest::Version => show(&mut client, &Version {}, json, |version| tables::version(&version))?,
    };
    Ok(writeln!(out, "{text}")?)
}

/// Reloads the configuration, and prints the report. Fails if one of the actions failed.
fn reload(client: &mut Client, json: bool, out: &mut dyn Write) -> Result<(), CtlError> {
    let report = client.call(&Reload {})?;
    let text = if json { serde_json::to_string(&report).map_err(io::Error::from)? } else { report.items().join("\n") };
    writeln!(out, "{text}")?;
    match report.failed() {
        0 => Ok(()),
        failed => Err(CtlError::Reload(failed)),
    }
}

/// Prints the rates of each interval. Opens a new connection each time, so that it holds no connection and survives a restart
/// of the switch.
fn watch(
    socket: &Path,
    interval: Duration,
    count: Option<u64>,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), CtlError> {
    let mut before = Client::connect(socket)?.call(&Stats {})?;
    let mut reports = 0;
    while count.is_none_or(|count| reports < count) {
        thread::sleep(interval);
        let now = Client::connect(socket)?.call(&Stats {})?;
        let rates = rates::between(&before, &now);
        if json {
            let line = serde_json::to_string(&rates).map_err(io::Error::from)?;
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "{}\n", tables::rates(&rates))?;
        }
        out.flush()?;
        before = now;
        reports += 1;
    }
    Ok(())
}
