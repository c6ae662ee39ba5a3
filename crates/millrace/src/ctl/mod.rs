//! `millrace ctl`: sends a request to a running switch and prints the answer.

mod aggregation;
mod answer;
mod exchange;
mod flows;
mod parts;
pub(crate) mod rates;
pub(crate) mod tables;
mod why;

pub use answer::CtlError;

use crate::cli::{CtlOptions, CtlRequest, StatsOptions};
use crate::config::default_control_socket;
use crate::control::{Client, ReloadReport};
use answer::read;
use engine::stats::Snapshot;
use serde_json::json;
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
    let method = match request {
        CtlRequest::Port(request) => return Ok(writeln!(out, "{}", parts::port(&mut client, request, json)?)?),
        CtlRequest::Bridge(request) => return Ok(writeln!(out, "{}", parts::bridge(&mut client, request, json)?)?),
        CtlRequest::Patch(request) => return Ok(writeln!(out, "{}", parts::patch(&mut client, request, json)?)?),
        CtlRequest::Ports => "ports",
        CtlRequest::Stats(_) => "stats",
        CtlRequest::Workers => "workers",
        CtlRequest::Mac => "mac",
        CtlRequest::Drops => "drops",
        CtlRequest::Mappings => "mappings",
        CtlRequest::Exchange => "exchange",
        CtlRequest::Why(_) => "why",
        CtlRequest::Aggregation => "aggregation",
        CtlRequest::Flows => "flows",
        CtlRequest::Confinement => "confinement",
        CtlRequest::Reload => "reload",
        CtlRequest::Shutdown => "shutdown",
        CtlRequest::Version => "version",
    };
    let params = match request {
        CtlRequest::Why(why) => json!({"port": why.port}),
        _ => json!({}),
    };
    let result = client.call_with(method, params)?;
    let failed = match request {
        CtlRequest::Reload => read::<ReloadReport>(result.clone())?.failed(),
        _ => 0,
    };
    let text = match request {
        _ if json => result.to_string(),
        CtlRequest::Ports => tables::ports(&read::<Vec<_>>(result)?),
        CtlRequest::Stats(_) => tables::stats(&read(result)?),
        CtlRequest::Workers => tables::workers(&read::<Vec<_>>(result)?),
        CtlRequest::Mac => tables::macs(&read::<Vec<_>>(result)?),
        CtlRequest::Drops => tables::drops(&read(result)?),
        CtlRequest::Mappings => tables::mappings(&read::<Vec<_>>(result)?),
        CtlRequest::Exchange => exchange::show(&read::<Vec<_>>(result)?),
        CtlRequest::Why(_) => why::show(&read(result)?),
        CtlRequest::Aggregation => aggregation::show(&read(result)?),
        CtlRequest::Flows => flows::show(&read(result)?),
        CtlRequest::Confinement => tables::confinement(&read(result)?),
        CtlRequest::Reload => read::<ReloadReport>(result)?.items().join("\n"),
        CtlRequest::Shutdown => "The switch is stopping.".to_owned(),
        _ => tables::version(&read(result)?),
    };
    writeln!(out, "{text}")?;
    if failed == 0 { Ok(()) } else { Err(CtlError::Reload(failed)) }
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
    let mut before: Snapshot = Client::connect(socket)?.call_as("stats")?;
    let mut reports = 0;
    while count.is_none_or(|count| reports < count) {
        thread::sleep(interval);
        let now: Snapshot = Client::connect(socket)?.call_as("stats")?;
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
