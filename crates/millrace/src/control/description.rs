//! The description of the API: OpenRPC, and the page that is made from it.

use super::methods::{METHODS, Method};
use crate::config::schema;
use api::code::Code;
use api::event::Event;
use api::request::EVENT;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

const SCHEMAS: &str = "#/components/schemas/";

const INTRODUCTION: &str = "\
# The API

<!-- Made by `millrace schema --api --markdown`; change crates/millrace/src/control and crates/api instead. -->

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
millrace ctl events --last 6
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
- **Limits.** 64 clients at a time, lines of 64 KiB, batches of 32 requests; a client that does not read its answers, or sends no request for a
  minute, is disconnected.

## Clients

Programs in Rust use the crate `millrace-client` ([crates/client](../crates/client/src/lib.rs)), programs in Go the module in
[clients/go](../clients/go/doc.go): both have types for parameters, results, events and errors, and need nothing but JSON. `millrace ctl` uses
the former.

";

const EVENTS: &str = "\
## Events

`events.list` returns what has happened last, and `events.follow` sends what happens from then on, so that an orchestrator need not ask
again and again; `millrace ctl events` and `millrace ctl events --follow` print them, a line each. On the socket, each is a notification:

```json
{\"jsonrpc\": \"2.0\", \"method\": \"event\", \"params\": {\"seq\": 1764355000127, \"time\": 1764355042.17, \"event\": \"guest-connected\",
 \"port\": \"web-0\"}}
```

in one line. The names of events and of their fields stay the same; later versions have more of both.

- **Numbers.** `seq` counts the events. A client that comes back asks for those `since` the last one that it has seen. The numbers of a switch that was
  started again are greater, and such a client gets all of its events, from `started` on.
- **Losses.** The switch keeps the last 1024 events (actions in an event count as events, too). A client that reads more slowly than they come holds
  up nobody: it misses some, and `lost` tells it how many. One that does not read at all is disconnected after an hour. 32 clients can follow at a
  time.
- **Ports that change all the time** have eight events a second at most, and the last one has the state that the port is in then: no guest can
  push others' events out.
- **Addresses** are only told to those who ask for them (`learned`, `--learned`): the switch then compares its tables, every second at most. They are
  neither numbered nor kept: `mac` returns the present ones. Mappings are looked at every second, too.

";

/// Returns the description as OpenRPC.
pub fn openrpc() -> Value {
    let mut generator =
        SchemaSettings::draft2020_12().with(|to| to.definitions_path = "/components/schemas".into()).into_generator();
    let mut methods = Vec::new();
    for method in METHODS.iter() {
        let Method { name, about, errors, .. } = method;
        let errors: Vec<_> =
            errors.iter().map(|code| json!({"$ref": format!("#/components/errors/{code:?}")})).collect();
        let result = json!({"name": "result", "schema": (method.result)(&mut generator)});
        let params = params(method, &mut generator);
        methods.push(json!({"name": name, "summary": about, "params": params, "result": result, "errors": errors}));
    }
    let event = generator.subschema_for::<Event>();
    let mut schemas = schema()["$defs"].as_object().cloned().unwrap_or_default();
    schemas.extend(generator.take_definitions(true));
    let error =
        |(code, about): &(Code, &str)| (format!("{code:?}"), json!({"code": *code as i64, "message": about.trim()}));
    let errors: Map<_, _> = Code::ALL.iter().map(error).collect();
    let description = json!({
        "openrpc": "1.3.2",
        "info": {"title": "Millrace", "version": env!("CARGO_PKG_VERSION")},
        "methods": methods,
        "x-notifications": [{"name": EVENT, "summary": "An event; `events.follow` asks for them.", "params": event}],
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
    events(&mut out, &api["components"]["schemas"]["Event"]);
    out.push_str("\n## Errors\n\nBesides those of JSON-RPC itself. In all cases nothing has changed.\n\n| code | name | meaning |\n|---|---|---|\n");
    for (code, about) in Code::ALL {
        let _ = writeln!(out, "| {} | `{code:?}` | {} |", *code as i64, about.trim());
    }
    out
}

/// Writes the chapter on events.
fn events(out: &mut String, schema: &Value) {
    let _ = write!(out, "\n{EVENTS}| event | fields | meaning |\n|---|---|---|\n");
    for event in schema["oneOf"].as_array().into_iter().flatten() {
        let required =
            |name: &str| event["required"].as_array().is_some_and(|list| list.iter().any(|other| other == name));
        let fields = event["properties"].as_object().into_iter().flatten().filter(|(name, _)| *name != "event");
        let shown = |(name, _): (&String, _)| format!("`{name}`{}", if required(name) { "" } else { "?" });
        let fields: Vec<_> = fields.map(shown).collect();
        let name = event["properties"]["event"]["const"].as_str().unwrap_or_default();
        let about = event["description"].as_str().unwrap_or_default();
        let _ = writeln!(out, "| `{name}` | {} | {about} |", fields.join(", "));
    }
}

/// Returns the parameters of a method.
fn params(method: &Method, generator: &mut SchemaGenerator) -> Vec<Value> {
    let table = (method.params)(generator).to_value();
    let required = |name: &str| table["required"].as_array().is_some_and(|list| list.iter().any(|other| other == name));
    let section = method.name.strip_suffix(".add");
    let properties = table["properties"].as_object().into_iter().flatten();
    let params = properties.map(|(name, schema)| match section.filter(|_| name == "keys") {
        // The configuration's schema has them.
        Some(section) => param(name, true, &json!({"$ref": format!("{SCHEMAS}{section}")})),
        None => param(name, required(name), schema),
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
        assert_eq!(api["methods"].as_array().unwrap().len(), METHODS.len());
    }

    /// Sections of the configuration and types of the API stand side by side.
    #[test]
    fn no_two_schemas_have_one_name() {
        let api = openrpc();
        for (name, section) in schema()["$defs"].as_object().unwrap() {
            assert_eq!(api["components"]["schemas"][name], moved(section.clone()), "{name}");
        }
    }

    #[test]
    fn the_page_lists_each_event_with_its_fields() {
        let page = page();
        assert!(page.contains("| `worker-hung` | `worker`, `place`, `seconds` | A worker makes no rounds"), "{page}");
        assert!(
            page.contains("| `mapping-changed` | `from`, `to`, `zero_copy`, `reason`? |") && !page.contains("unknown")
        );
        let listed = page.lines().skip_while(|line| *line != "| event | fields | meaning |").skip(2);
        assert_eq!(listed.take_while(|line| line.starts_with("| `")).count(), 18);
    }

    #[test]
    fn the_stored_page_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == page(), "docs/api.md is out of date; run: cargo xtask docs");
    }
}
