//! Methods that add, change and remove parts: `port.add` and the like.

use super::Handler;
use super::failure::{Failure, to_value};
use crate::config::{Part, PartKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use toml::Table;

/// A method, and what it is for.
pub(super) const METHODS: [(&str, &str); 10] = [
    ("port.add", "Adds a port. If it is there with the same settings, nothing changes."),
    ("port.set", "Changes settings of a port."),
    ("port.del", "Removes a port. If it is not there, nothing changes."),
    ("port.list", "Returns all ports, or those with some labels."),
    ("port.get", "Returns the state of a port, or null. Cheap: ask until it is open."),
    ("bridge.add", "Adds a bridge, as for ports. Ports name it by their key `bridge`."),
    ("bridge.set", "Changes settings of a bridge."),
    ("bridge.del", "Removes a bridge that has no ports."),
    ("patch.add", "Joins two ports."),
    ("patch.del", "Parts two ports."),
];

/// Parameters of `add`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Add {
    /// Keys of the section, as in the configuration file.
    keys: Map<String, Value>,
}

/// Parameters of `set`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Set {
    /// Name of the part, which it keeps.
    name: String,
    /// Keys that get other values.
    #[serde(default)]
    keys: Map<String, Value>,
    /// Keys that get none.
    #[serde(default)]
    unset: Vec<String>,
    /// Whether ports may be opened again for it.
    #[serde(default)]
    reopen: bool,
}

/// Parameters of `del` and `get`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    /// Name of the part; of a patch, the names of its ports with a `+` between them.
    name: String,
}

/// Parameters of `port.list`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct List {
    /// Labels that the ports have: a value, or any if it is null.
    labels: BTreeMap<String, Option<String>>,
}

/// Answers a call of one of these methods; `None` if it is another one.
pub(super) fn answer(method: &str, params: Option<&Value>, handler: &dyn Handler) -> Option<Result<Value, Failure>> {
    METHODS.iter().find(|(name, _)| *name == method)?;
    let (section, verb) = method.split_once('.')?;
    let kind = PartKind::ALL.into_iter().find(|kind| kind.section() == section)?;
    Some(call(kind, verb, params, handler))
}

fn call(kind: PartKind, verb: &str, params: Option<&Value>, handler: &dyn Handler) -> Result<Value, Failure> {
    match verb {
        "add" => {
            let Add { keys } = read(params)?;
            to_value(handler.add(kind, table(keys)?)?)
        }
        "set" => {
            let Set { name, keys, unset, reopen } = read(params)?;
            to_value(handler.set(kind, &name, (table(keys)?, &unset, reopen))?)
        }
        "del" => {
            let Named { name } = read(params)?;
            to_value(handler.remove(kind, &Part::canonical(kind, &name))?)
        }
        "get" => {
            let Named { name } = read(params)?;
            to_value(handler.port_state(&name))
        }
        _ => {
            let List { labels } = if params.is_some() { read(params)? } else { List::default() };
            let mut ports = handler.ports();
            let has = |own: &BTreeMap<String, String>, (name, value): (&String, &Option<String>)| {
                own.get(name).is_some_and(|own| value.as_ref().is_none_or(|value| value == own))
            };
            ports.retain(|port| labels.iter().all(|label| has(&port.labels, label)));
            to_value(ports)
        }
    }
}

fn read<T: DeserializeOwned>(params: Option<&Value>) -> Result<T, Failure> {
    let params = params.cloned().unwrap_or_default();
    serde_json::from_value(params).map_err(|error| Failure::new(Failure::INVALID_PARAMS, error.to_string()))
}

/// Returns keys as the configuration file has them.
fn table(keys: Map<String, Value>) -> Result<Table, Failure> {
    Table::try_from(keys).map_err(|error| Failure::new(Failure::INVALID_PARAMS, format!("`keys`: {error}")))
}
