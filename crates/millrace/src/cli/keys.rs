//! Options for the keys of a section, made from the schema of the configuration: what a file can say, the command line can.

use crate::config::schema;
use api::part::PartKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use toml::Table;

/// Keys that the command line has in another form: a name is an argument, and `--label` says a single one. The switch is found by
/// `--socket`, and a port's socket comes with its driver.
const ELSEWHERE: [&str; 4] = ["name", "labels", "socket", "driver"];
/// Keys that say what a port is attached to: an option of its driver's name takes the first that the driver has.
const ATTACHED_BY: [&str; 3] = ["socket", "interface", "device"];

/// An option.
struct Key {
    name: String,
    schema: Value,
}

/// A driver, and the key that says what its ports are attached to.
struct Driver {
    name: String,
    help: String,
    attached_by: Option<&'static str>,
}

/// The options of a kind of section.
struct Options {
    keys: Vec<Key>,
    drivers: Vec<Driver>,
}

static PORT: LazyLock<Options> = LazyLock::new(|| Options::of(PartKind::Port));
static BRIDGE: LazyLock<Options> = LazyLock::new(|| Options::of(PartKind::Bridge));

impl Options {
    fn of(kind: PartKind) -> Options {
        let schema = schema();
        let section = &schema["$defs"][kind.section()];
        let variants: Vec<&Value> = section["allOf"].as_array().into_iter().flatten().collect();
        let mut keys = BTreeMap::new();
        for properties in [section].into_iter().chain(variants.iter().map(|variant| &variant["then"])) {
            for (name, schema) in properties["properties"].as_object().into_iter().flatten() {
                if !ELSEWHERE.contains(&name.as_str()) {
                    keys.entry(name.clone()).or_insert_with(|| schema.clone());
                }
            }
        }
        let driver = |variant: &&Value| {
            let name = variant["if"]["properties"]["driver"]["const"].as_str()?.to_owned();
            let kinds = section["properties"]["driver"]["oneOf"].as_array();
            let about = kinds.into_iter().flatten().find(|kind| kind["const"] == *name);
            let help = about.and_then(|kind| kind["description"].as_str()).unwrap_or_default().to_owned();
            let own = &variant["then"]["properties"];
            Some(Driver { name, help, attached_by: ATTACHED_BY.into_iter().find(|key| own[key].is_object()) })
        };
        Options {
            keys: keys.into_iter().map(|(name, schema)| Key { name, schema }).collect(),
            drivers: variants.iter().filter_map(driver).collect(),
        }
    }

    fn add_to(&'static self, mut command: Command) -> Command {
        let names: Vec<_> = self.drivers.iter().map(|driver| driver.name.as_str()).collect();
        for driver in &self.drivers {
            let others = names.iter().copied().filter(|name| *name != driver.name);
            let arg = Arg::new(driver.name.as_str())
                .long(driver.name.as_str())
                .help(driver.help.as_str())
                .conflicts_with_all(others);
            command = command.arg(match driver.attached_by {
                Some(key) => arg
                    .value_name(if key == "socket" { "SOCKET" } else { "DEVICE" })
                    .num_args(0..=1)
                    .default_missing_value(""),
                None => arg.action(ArgAction::SetTrue),
            });
        }
        for Key { name, schema } in &self.keys {
            let help = schema["description"].as_str().unwrap_or_default();
            let arg = Arg::new(name.as_str()).long(name.as_str()).help(help).value_name("VALUE");
            let is_flag = schema["type"] == "boolean";
            command = command.arg(if is_flag { arg.num_args(0..=1).default_missing_value("true") } else { arg });
        }
        command
    }

    fn read(&self, matches: &ArgMatches) -> Table {
        let mut table = Table::new();
        for Driver { name, attached_by, .. } in &self.drivers {
            let to = match attached_by {
                Some(_) => matches.get_one::<String>(name).map(String::as_str),
                None => matches.get_flag(name).then_some(""),
            };
            let Some(to) = to else { continue };
            table.insert("driver".into(), name.as_str().into());
            if let Some(key) = attached_by.filter(|_| !to.is_empty()) {
                table.insert(key.into(), to.into());
            }
        }
        for Key { name, schema } in &self.keys {
            if let Some(text) = matches.get_one::<String>(name) {
                table.insert(name.clone(), value(schema, text));
            }
        }
        table
    }
}

/// Returns the value of a key that is written like this. The switch finds out whether it may be.
fn value(schema: &Value, text: &str) -> toml::Value {
    let alternatives: Vec<&Value> = schema["anyOf"].as_array().map_or(vec![schema], |all| all.iter().collect());
    let is = |kind: &str| alternatives.iter().any(|schema| schema["type"] == kind);
    let is_text = |schema: &&Value| schema["type"] == "string" || schema["oneOf"].is_array();
    if alternatives.iter().all(is_text) {
        return text.into();
    }
    let parse = |text: &str| format!("v = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("v"));
    let one = |text: &str| parse(text).unwrap_or_else(|| text.into());
    match parse(text) {
        Some(toml::Value::Array(list)) => list.into(),
        Some(value) if !is("array") || is("integer") => value,
        None if alternatives.iter().any(|schema| schema["const"] == text) => text.into(),
        _ if is("array") => text.split(',').map(|item| one(item.trim())).collect::<Vec<_>>().into(),
        _ => one(text),
    }
}

macro_rules! keys {
    ($(#[doc = $doc:literal] $name:ident = $options:ident,)*) => {
        $(
            #[doc = $doc]
            #[derive(Clone, Debug, Default)]
            pub struct $name(pub Table);

            impl FromArgMatches for $name {
                fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
                    Ok(Self($options.read(matches)))
                }
                fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
                    self.0 = $options.read(matches);
                    Ok(())
                }
            }

            impl Args for $name {
                fn augment_args(command: Command) -> Command {
                    $options.add_to(command)
                }
                fn augment_args_for_update(command: Command) -> Command {
                    $options.add_to(command)
                }
            }
        )*
    };
}

keys! {
    /// Keys of a port.
    PortKeys = PORT,
    /// Keys of a bridge.
    BridgeKeys = BRIDGE,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_written_as_their_keys_want_them() {
        let list = json!({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"const": "all"}]});
        assert_eq!(value(&list, "10,20"), toml::Value::from(vec![10, 20]));
        assert_eq!(value(&list, "10"), toml::Value::from(vec![10]));
        assert_eq!(value(&list, "[10]"), toml::Value::from(vec![10]));
        assert_eq!(value(&list, "all"), "all".into());
        assert_eq!(value(&json!({"type": "integer"}), "10"), 10.into());
        assert_eq!(value(&json!({"type": "string"}), "10"), "10".into());
        assert_eq!(value(&json!({"type": "boolean"}), "true"), true.into());
        assert_eq!(value(&json!({"$ref": "x"}), "{drop = 0.5}")["drop"], 0.5.into());
        assert_eq!(value(&json!({"type": "integer"}), "many"), "many".into());
    }

    /// Each key of the file has its option, and none is another option's name.
    #[test]
    fn each_key_has_an_option() {
        let command = PORT.add_to(Command::new("add"));
        for key in ["vlan", "trunk", "bridge", "mode", "record-to", "vhost-user", "sink", "af_xdp"] {
            assert!(command.get_arguments().any(|arg| arg.get_long() == Some(key)), "{key}");
        }
        command.debug_assert();
    }
}
