//! The events of a switch: the last ones, or those to come.

use super::answer::CtlError;
use crate::cli::EventsOptions;
use api::event::Event;
use api::request::{EventsFollow, EventsList};
use client::Client;
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

/// Number of events that are shown if nothing else is wanted.
const LAST: usize = 20;

/// Prints the events that the command line asks for. Those to come are printed until the switch ends.
pub(super) fn run(
    mut client: Client,
    options: &EventsOptions,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), CtlError> {
    let EventsOptions { follow, last, since, learned } = *options;
    let mut after = since;
    if !follow || last.is_some() {
        let last = last.or((since.is_none()).then_some(LAST));
        let events = client.call(&EventsList { since, last })?;
        after = events.last().map(|event| event.seq).or(since);
        events.iter().try_for_each(|event| print(event, json, out))?;
    }
    if follow {
        for event in client.follow(&EventsFollow { since: after, learned })? {
            print(&event?, json, out)?;
        }
    }
    Ok(())
}

fn print(event: &Event, json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        writeln!(out, "{}", serde_json::to_string(event)?)?;
    } else {
        let time = UNIX_EPOCH + Duration::try_from_secs_f64(event.time).unwrap_or_default();
        writeln!(out, "{}  {}", humantime::format_rfc3339_millis(time), event.kind)?;
    }
    // A program that reads the output gets each event at once.
    out.flush()
}
