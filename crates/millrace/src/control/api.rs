//! The description of the API: OpenRPC, and the page that is made from it.

use super::PortSummary;
use super::edit::{Add, List, METHODS, Named, Set};
use super::rpc::PLAIN;
use crate::config::{PartKind, schema};
use crate::parts::{Change, Code};
use engine::stats::PortState;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

const SCHEMAS: &str = "#/components/schemas/";

const INTRODUCTION: &str = "\
# The API

<!-- Made by `millrace schema --api --markdown`; change crates/millrace/src/control and parts instead. -->

The control socket speaks JSON-RPC 2.0, a message in a line: `millrace ctl` is a client of it, and `--json` prints the results. The
socket belongs to its owner only (mode 0600). `millrace schema --api` prints this description as [OpenRPC](https://open-rpc.org), with
the types of all parameters and results.

An orchestrator adds ports, bridges and patches and removes them while the switch runs, any number of times, and disturbs
nobody: others' frames, addresses and counters stay. A part is a section of the [configuration](configuration.md) with the same keys:

<!-- hidden: api.toml
[[port]]
name = \"wan\"
driver = \"sink\"
bridge = \"br0\"

[[bridge]]
name = \"br0\"
-->
<!-- first: millrace run --config api.toml -->
```sh
millrace ctl port add web-0 --vhost-user web-0.sock --bridge br0 --label pod=ns/web-0 --wait 5s
millrace ctl port list --label pod --json
millrace ctl port set web-0 --label pod=ns/web-1
millrace ctl port del web-0
millrace ctl bridge add br1 --ageing 60
millrace ctl bridge del br1
```

On the socket, the first of these is

```json
{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"port.add\", \"params\": {\"keys\": {\"name\": \"web-0\", \"driver\": \"vhost-user\",
 \"socket\": \"web-0.sock\", \"bridge\": \"br0\", \"labels\": {\"pod\": \"ns/web-0\"}}}}
```

in one line. Then `port.get` says whether the port is `open`: its socket is there, or it is connected.

- **Owners.** The file decides on its own parts, and the API on those that it has added: a reload does not touch the latter, and the API refuses
  to change the former (`port list` shows the owner). A file that names a port of the API, or no longer has a bridge that one needs, is
  refused, and says so.
- **Restarts.** If `ports` of [`[control]`](configuration.md#control) names a directory, each part is a file there, which is written
  before the call is answered, and is there as a whole or not at all after a crash. Without it, added parts are gone when the switch is. At a
  start, a part that does not fit the file any more, or names a path outside the confinement, is left out, and the log says why; its
  file stays until the part is removed.
- **Paths** are relative to the directory of the configuration file. A confined switch creates sockets only where its file allows it: name the
  directory that will hold them in `directories` of [`[confinement]`](configuration.md#confinement). Connecting (`mode = \"client\"`) needs nothing.
- **Directories** of sockets that are missing are made if `make-directories` of `[control]` says so: at the start, as /run may have been emptied,
  and for each new port beneath the `directories` of `[confinement]`.
- **Workers.** A new port goes to the worker that has the fewest queues, and all others stay at theirs.
- **Limits.** 64 clients at a time, lines of 64 KiB, batches of 32 requests; a client that does not read its answers is disconnected.

";

/// Returns the description as OpenRPC.
pub fn openrpc() -> Value {
    let mut generator =
        SchemaSettings::draft2020_12().with(|to| to.definitions_path = "/components/schemas".into()).into_generator();
    let plain = PLAIN.iter().map(|(name, about, _)| {
        let params = if *name == "why" { vec![param("port", true, &json!({"type": "string"}))] } else { vec![] };
        let result = json!({"description": format!("as `millrace ctl --json {name}` prints it")});
        json!({"name": name, "summary": about, "params": params, "result": {"name": "result", "schema": result}})
    });
    let mut methods: Vec<_> = plain.collect();
    for (name, about) in METHODS {
        let result = result(name, &mut generator);
        let params = params(name, &mut generator);
        let errors: Vec<_> =
            errors(name).map(|code| json!({"$ref": format!("#/components/errors/{code:?}")})).collect();
        let result = json!({"name": "result", "schema": result});
        methods.push(json!({"name": name, "summary": about, "params": params, "result": result, "errors": errors}));
    }
    let mut schemas = schema()["$defs"].as_object().cloned().unwrap_or_default();
    schemas.extend(generator.take_definitions(true));
    let error =
        |(code, about): &(Code, &str)| (format!("{code:?}"), json!({"code": *code as i64, "message": about.trim()}));
    let errors: Map<_, _> = Code::ALL.iter().map(error).collect();
    let description = json!({
        "openrpc": "1.3.2",
        "info": {"title": "Millrace", "version": env!("CARGO_PKG_VERSION")},
        "methods": methods,
        "components": {"schemas": schemas, "errors": errors},
    });
    moved(description)
}

/// Returns the page of the documentation.
pub fn page() -> String {
    let api = openrpc();
    let mut out = format!("{INTRODUCTION}## Methods\n\n| method | parameters | meaning |\n|---|---|---|\n");
    for method in api["methods"].as_array().into_iter().flatten() {
        let shown = |param: &Value| {
            let optional = if param["required"] == true { "" } else { "?" };
            format!("`{}`{optional}", param["name"].as_str().unwrap_or_default())
        };
        let params: Vec<_> = method["params"].as_array().into_iter().flatten().map(shown).collect();
        let text = |key: &str| method[key].as_str().unwrap_or_default();
        let _ = writeln!(out, "| `{}` | {} | {} |", text("name"), params.join(", "), text("summary"));
    }
    out.push_str("\n`keys` are those of the section, and `unset` lists some that get their defaults. A change that would open a port again, so that its \
                  peers have to connect again, is refused unless `reopen` is true. `labels` are names with values, or with null for any value.\n");
    out.push_str("\n## Errors\n\nBesides those of JSON-RPC itself. In all cases nothing has changed.\n\n| code | name | meaning |\n|---|---|---|\n");
    for (code, about) in Code::ALL {
        let _ = writeln!(out, "| {} | `{code:?}` | {} |", *code as i64, about.trim());
    }
    out
}

/// Returns the errors that a method may answer with.
fn errors(method: &str) -> impl Iterator<Item = Code> {
    let (_, verb) = method.split_once('.').unwrap_or_default();
    let codes: &[Code] = match verb {
        "add" => &[Code::OwnedByFile, Code::Differs, Code::Invalid, Code::NotKept, Code::NotApplied],
        "set" => &[Code::OwnedByFile, Code::Invalid, Code::Absent, Code::NotKept, Code::Reopens, Code::NotApplied],
        "del" => &[Code::OwnedByFile, Code::Invalid, Code::InUse, Code::NotKept, Code::NotApplied],
        _ => &[],
    };
    codes.iter().copied()
}

fn result(method: &str, generator: &mut SchemaGenerator) -> Schema {
    match method {
        "port.list" => generator.subschema_for::<Vec<PortSummary>>(),
        "port.get" => generator.subschema_for::<Option<PortState>>(),
        _ => generator.subschema_for::<Change>(),
    }
}

fn params(method: &str, generator: &mut SchemaGenerator) -> Vec<Value> {
    let (section, verb) = method.split_once('.').unwrap_or_default();
    let table = match verb {
        "add" => generator.root_schema_for::<Add>(),
        "set" => generator.root_schema_for::<Set>(),
        "list" => generator.root_schema_for::<List>(),
        _ => generator.root_schema_for::<Named>(),
    };
    let table = table.to_value();
    let required = |name: &str| table["required"].as_array().is_some_and(|list| list.iter().any(|other| other == name));
    let properties = table["properties"].as_object().into_iter().flatten();
    let known = PartKind::ALL.iter().any(|kind| kind.section() == section);
    let params = properties.map(|(name, schema)| match (name.as_str(), verb) {
        ("keys", "add") if known => param(name, true, &json!({"$ref": format!("{SCHEMAS}{section}")})),
        _ => param(name, required(name), schema),
    });
    params.collect()
}

fn param(name: &str, required: bool, schema: &Value) -> Value {
    json!({"name": name, "required": required, "schema": schema})
}

/// Returns the description with all references to where its schemas are.
fn moved(value: Value) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix("#/$defs/") {
            Some(name) => format!("{SCHEMAS}{name}").into(),
            None => text.into(),
        },
        Value::Array(list) => list.into_iter().map(moved).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, moved(value))).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn each_reference_leads_somewhere() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Array(list) => list.iter().for_each(|value| references(value, found)),
                Value::Object(map) => {
                    found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    map.values().for_each(|value| references(value, found));
                }
                _ => {}
            }
        }
        let api = openrpc();
        let mut found = Vec::new();
        references(&api, &mut found);
        assert!(found.len() > 20, "{found:?}");
        for reference in found {
            assert!(api.pointer(reference.strip_prefix('#').unwrap()).is_some(), "{reference}");
        }
        assert_eq!(api["methods"].as_array().unwrap().len(), PLAIN.len() + METHODS.len());
    }

    #[test]
    fn the_stored_page_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == page(), "docs/api.md is out of date; run: cargo xtask docs");
    }
}
