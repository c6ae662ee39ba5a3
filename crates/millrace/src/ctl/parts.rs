//! Requests that add, change and remove parts.

use super::answer::{CtlError, show};
use super::tables;
use crate::cli::{
    AddBridge, AddPort, BridgeRequest, ListPorts, PatchRequest, PortOptions, PortRequest, SetBridge, SetPort,
};
use api::part::Change;
use api::request::{BridgeAdd, BridgeDel, BridgeSet, PatchAdd, PatchDel, PortAdd, PortDel, PortList, PortSet, Request};
use client::Client;
use serde_json::{Map, Value, json};
use std::time::Duration;
use toml::Table;

/// Does a request about ports, and returns what to print.
pub(super) fn port(client: &mut Client, request: &PortRequest, json: bool) -> Result<String, CtlError> {
    match request {
        PortRequest::Add(AddPort { name, port: PortOptions { labels, wait, keys } }) => {
            let told = change(client, &PortAdd { keys: keyed(name, labelled(&keys.0, labels)) }, json)?;
            wait_until_open(client, name, *wait)?;
            Ok(told)
        }
        PortRequest::Set(SetPort { name, change: how, port: PortOptions { labels, wait, keys } }) => {
            let (keys, unset) = (object(labelled(&keys.0, labels)), how.unset.clone());
            let told = change(client, &PortSet { name: name.clone(), keys, unset, reopen: how.reopen }, json)?;
            wait_until_open(client, name, *wait)?;
            Ok(told)
        }
        PortRequest::Del(name) => change(client, &PortDel { name: name.name.clone() }, json),
        PortRequest::List(ListPorts { labels }) => {
            let request = PortList { labels: labels.iter().cloned().collect() };
            Ok(show(client, &request, json, |ports| tables::owned(&ports))?)
        }
    }
}

/// Does a request about bridges, and returns what to print.
pub(super) fn bridge(client: &mut Client, request: &BridgeRequest, json: bool) -> Result<String, CtlError> {
    match request {
        BridgeRequest::Add(AddBridge { name, keys }) => {
            change(client, &BridgeAdd { keys: keyed(name, keys.0.clone()) }, json)
        }
        BridgeRequest::Set(SetBridge { name, change: how, keys }) => {
            let (keys, unset) = (object(keys.0.clone()), how.unset.clone());
            change(client, &BridgeSet { name: name.clone(), keys, unset, reopen: how.reopen }, json)
        }
        BridgeRequest::Del(name) => change(client, &BridgeDel { name: name.name.clone() }, json),
    }
}

/// Does a request about patches, and returns what to print.
pub(super) fn patch(client: &mut Client, request: &PatchRequest, json: bool) -> Result<String, CtlError> {
    match request {
        PatchRequest::Add(pair) => {
            let ports = json!([pair.a, pair.b]);
            change(client, &PatchAdd { keys: Map::from_iter([("ports".to_owned(), ports)]) }, json)
        }
        PatchRequest::Del(pair) => change(client, &PatchDel { name: format!("{}+{}", pair.a, pair.b) }, json),
    }
}

/// Does a call that changes parts, and returns what to print.
fn change<R: Request<Answer = Change>>(client: &mut Client, request: &R, json: bool) -> Result<String, CtlError> {
    let text = |change: Change| {
        let actions = change.actions.iter().map(|action| format!("  {action}"));
        [change.to_string()].into_iter().chain(actions).collect::<Vec<_>>().join("\n")
    };
    Ok(show(client, request, json, text)?)
}

fn keyed(name: &str, keys: Table) -> Map<String, Value> {
    let mut table = Table::from_iter([("name".to_owned(), name.into())]);
    table.extend(keys);
    object(table)
}

/// Returns keys as JSON has them.
fn object(keys: Table) -> Map<String, Value> {
    match serde_json::to_value(keys) {
        Ok(Value::Object(keys)) => keys,
        other => panic!("a table is an object, and not {other:?}"),
    }
}

fn labelled(keys: &Table, labels: &[(String, String)]) -> Table {
    let mut keys = keys.clone();
    if !labels.is_empty() {
        let labels = labels.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
        keys.insert("labels".into(), toml::Value::Table(labels.collect()));
    }
    keys
}

/// Waits until peers can connect to a port, or one is connected, if that is wanted.
fn wait_until_open(client: &mut Client, name: &str, wait: Option<Duration>) -> Result<(), CtlError> {
    wait.map_or(Ok(()), |wait| Ok(client.wait_until_open(name, wait)?))
}
