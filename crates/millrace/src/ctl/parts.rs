//! Requests that add, change and remove parts.

use super::answer::{CtlError, read};
use super::tables;
use crate::cli::{
    AddBridge, AddPort, BridgeRequest, ListPorts, PatchRequest, PortOptions, PortRequest, SetBridge, SetPort,
};
use crate::control::{Client, PortSummary};
use crate::parts::Change;
use engine::stats::PortState;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};
use toml::Table;

/// Interval at which the switch is asked whether a port is open.
const INTERVAL: Duration = Duration::from_millis(5);

/// Does a request about ports, and returns what to print.
pub(super) fn port(client: &mut Client, request: &PortRequest, json: bool) -> Result<String, CtlError> {
    match request {
        PortRequest::Add(AddPort { name, port: PortOptions { labels, wait, keys } }) => {
            let keys = keyed(name, labelled(&keys.0, labels));
            let change = client.call_with("port.add", json!({"keys": keys}))?;
            wait_until_open(client, name, *wait)?;
            told(change, json)
        }
        PortRequest::Set(SetPort { name, change, port: PortOptions { labels, wait, keys } }) => {
            let keys = labelled(&keys.0, labels);
            let params = json!({"name": name, "keys": keys, "unset": change.unset, "reopen": change.reopen});
            let change = client.call_with("port.set", params)?;
            wait_until_open(client, name, *wait)?;
            told(change, json)
        }
        PortRequest::Del(name) => told(client.call_with("port.del", json!({"name": name.name}))?, json),
        PortRequest::List(ListPorts { labels }) => {
            let labels: BTreeMap<_, _> = labels.iter().cloned().collect();
            let list = client.call_with("port.list", json!({"labels": labels}))?;
            if json {
                return Ok(list.to_string());
            }
            Ok(tables::owned(&read::<Vec<PortSummary>>(list)?))
        }
    }
}

/// Does a request about bridges, and returns what to print.
pub(super) fn bridge(client: &mut Client, request: &BridgeRequest, json: bool) -> Result<String, CtlError> {
    let change = match request {
        BridgeRequest::Add(AddBridge { name, keys }) => {
            client.call_with("bridge.add", json!({"keys": keyed(name, keys.0.clone())}))?
        }
        BridgeRequest::Set(SetBridge { name, change, keys }) => {
            let params = json!({"name": name, "keys": keys.0, "unset": change.unset, "reopen": change.reopen});
            client.call_with("bridge.set", params)?
        }
        BridgeRequest::Del(name) => client.call_with("bridge.del", json!({"name": name.name}))?,
    };
    told(change, json)
}

/// Does a request about patches, and returns what to print.
pub(super) fn patch(client: &mut Client, request: &PatchRequest, json: bool) -> Result<String, CtlError> {
    let change = match request {
        PatchRequest::Add(pair) => client.call_with("patch.add", json!({"keys": {"ports": [pair.a, pair.b]}}))?,
        PatchRequest::Del(pair) => client.call_with("patch.del", json!({"name": format!("{}+{}", pair.a, pair.b)}))?,
    };
    told(change, json)
}

fn keyed(name: &str, keys: Table) -> Table {
    let mut table = Table::from_iter([("name".to_owned(), name.into())]);
    table.extend(keys);
    table
}

fn labelled(keys: &Table, labels: &[(String, String)]) -> Table {
    let mut keys = keys.clone();
    if !labels.is_empty() {
        let labels = labels.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
        keys.insert("labels".into(), toml::Value::Table(labels.collect()));
    }
    keys
}

fn told(change: Value, json: bool) -> Result<String, CtlError> {
    if json {
        return Ok(change.to_string());
    }
    let change: Change = read(change)?;
    let actions = change.actions.iter().map(|action| format!("  {action}"));
    Ok([change.to_string()].into_iter().chain(actions).collect::<Vec<_>>().join("\n"))
}

/// Waits until peers can connect to a port, or one is connected.
fn wait_until_open(client: &mut Client, name: &str, wait: Option<Duration>) -> Result<(), CtlError> {
    let Some(wait) = wait else { return Ok(()) };
    let end = Instant::now() + wait;
    loop {
        match read::<Option<PortState>>(client.call_with("port.get", json!({"name": name}))?)? {
            Some(PortState { open: true, .. }) => return Ok(()),
            _ if Instant::now() < end => thread::sleep(INTERVAL),
            state => {
                let why = state.map_or_else(|| "it was removed meanwhile".to_owned(), |state| state.detail);
                return Err(CtlError::NotOpen { port: name.to_owned(), why });
            }
        }
    }
}
