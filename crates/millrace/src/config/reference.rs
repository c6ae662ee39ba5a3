//! Reference documentation of the configuration, generated from the data model so that the two cannot disagree.

use super::raw::RawFile;
use schemars::Schema;
use schemars::transform::{RecursiveTransform, Transform};
use serde_json::{Map, Value};
use std::fmt::Write as _;

const EXAMPLE: &str = include_str!("example.toml");

const INTRODUCTION: &str = "\
# Configuration

<!-- Made by `millrace schema --markdown`; change the doc comments in crates/millrace/src/config/raw.rs, crates/engine/src/port/*/spec.rs and crates/settings/src/aggregation/raw.rs instead. -->

Millrace reads one TOML file: `millrace run --config FILE`. `millrace check FILE` checks it without starting anything
and reports all errors at once. `millrace schema` prints this reference as a JSON schema, for editors.

Relative paths are relative to the directory of the file, or to the working directory if it comes from a pipe. Unknown
keys are errors. `millrace ctl reload`, or SIGHUP, applies a changed file to a running switch; unchanged
parts are not touched, and a file with an error changes nothing: [reload.md](reload.md).

";

/// Returns the JSON schema of the configuration file.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(RawFile);
    RecursiveTransform(drop_null_default).transform(&mut schema);
    schema.to_value()
}

/// Removes the default of an optional key: TOML has no null.
fn drop_null_default(schema: &mut Schema) {
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
}

/// Returns the reference in Markdown, as stored in docs/configuration.md.
pub fn markdown() -> String {
    let schema = schema();
    let mut out = format!("{INTRODUCTION}```toml\n{EXAMPLE}```\n\n## Before all sections\n\n");
    keys(&mut out, &schema, &schema);
    sections(&mut out, &schema, &schema, "");
    out
}

/// Writes a chapter for each property of `table` that is a table or an array of tables, recursively.
fn sections(out: &mut String, root: &Value, table: &Value, prefix: &str) {
    for (key, property) in properties(table) {
        let Some((section, repeated)) = section(root, property) else { continue };
        let path = format!("{prefix}{key}");
        let heading = if repeated { format!("[[{path}]]") } else { format!("[{path}]") };
        let title = format!("\n## `{heading}`\n\n");
        // Several drivers may have it.
        if out.contains(&title) {
            continue;
        }
        let _ = write!(out, "{title}{}\n\n", text(property));
        keys(out, root, section);
        sections(out, root, section, &format!("{path}."));
        for variant in section["allOf"].as_array().into_iter().flatten() {
            sections(out, root, &variant["then"], &format!("{path}."));
        }
    }
}

/// Writes the table of keys of one chapter, and those of its variants.
fn keys(out: &mut String, root: &Value, table: &Value) {
    let plain: Vec<_> = properties(table).filter(|(_, property)| section(root, property).is_none()).collect();
    if plain.is_empty() {
        out.push_str("No keys of its own.\n");
    } else {
        out.push_str("| Key | Type | Default | Meaning |\n|---|---|---|---|\n");
    }
    for (key, property) in &plain {
        let (default, text) = (default(table, key, property), text(property));
        let _ = writeln!(out, "| `{key}` | {} | {default} | {text} |", type_of(property));
    }
    for (key, property) in &plain {
        let choices: Vec<_> = choices(property).collect();
        if !choices.is_empty() {
            let _ = write!(out, "\n`{key}` is one of\n\n");
            for choice in choices {
                let _ = writeln!(out, "- `{}`: {}", choice["const"], text(choice));
            }
        }
    }
    for variant in table["allOf"].as_array().into_iter().flatten() {
        for (tag, value) in properties(&variant["if"]) {
            let _ = write!(out, "\n### With {tag} = {}\n\n", value["const"]);
        }
        keys(out, root, &variant["then"]);
    }
}

fn properties(table: &Value) -> impl Iterator<Item = (&str, &Value)> {
    table["properties"].as_object().into_iter().flat_map(Map::iter).map(|(key, property)| (key.as_str(), property))
}

/// Returns the table that a property refers to or holds, and whether it may be repeated.
fn section<'a>(root: &'a Value, property: &'a Value) -> Option<(&'a Value, bool)> {
    let items = &property["items"];
    if items["properties"].is_object() {
        return Some((items, true));
    }
    let (reference, repeated) = match property["$ref"].as_str() {
        Some(reference) => (reference, false),
        None => (property["items"]["$ref"].as_str()?, true),
    };
    Some((root.pointer(reference.strip_prefix('#')?)?, repeated))
}

fn choices(property: &Value) -> impl Iterator<Item = &Value> {
    property["oneOf"].as_array().into_iter().flatten()
}

/// Returns the description, on one line.
fn text(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace('\n', " ")
}

fn default(table: &Value, key: &str, property: &Value) -> String {
    if table["required"].as_array().is_some_and(|required| required.iter().any(|name| name == key)) {
        return "required".to_owned();
    }
    match (&property["x-default"], &property["default"]) {
        (Value::String(words), _) => words.clone(),
        (_, Value::Null) => String::new(),
        (_, value) => format!("`{value}`"),
    }
}

fn type_of(schema: &Value) -> String {
    if let Some(alternatives) = schema["anyOf"].as_array() {
        return alternatives.iter().map(type_of).collect::<Vec<_>>().join(" or ");
    }
    if !schema["const"].is_null() {
        return format!("`{}`", schema["const"]);
    }
    if choices(schema).next().is_some() {
        return "string, see below".to_owned();
    }
    let mut name = schema["type"].as_str().unwrap_or("value").to_owned();
    if name == "array" {
        let count = match (schema["minItems"].as_u64(), schema["maxItems"].as_u64()) {
            (Some(least), Some(most)) if least < most => format!("{least} to {most} "),
            (_, most) => most.map_or(String::new(), |count| format!("{count} ")),
        };
        let items = type_of(&schema["items"]);
        let (word, range) = items.split_at(items.find(',').unwrap_or(items.len()));
        return format!("array of {count}{word}s{range}");
    }
    let _ = match (&schema["minimum"], &schema["maximum"]) {
        (Value::Null, Value::Null) => Ok(()),
        (min, Value::Null) => write!(name, ", {min} or more"),
        (min, max) => write!(name, ", {min} to {max}"),
    };
    if let Some(pattern) = schema["pattern"].as_str() {
        let _ = write!(name, ", `{}`", pattern.trim_start_matches('^').trim_end_matches('$'));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Report};
    use std::path::Path;

    #[test]
    fn the_example_is_right() {
        let (config, warnings) =
            Config::parse(Path::new("example.toml"), EXAMPLE).unwrap_or_else(|report: Report| panic!("{report}"));
        assert!(warnings.is_empty(), "{warnings}");
        assert_eq!(config.spec.ports.len(), 5);
    }

    #[test]
    fn the_stored_reference_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            stored == markdown(),
            "docs/configuration.md is out of date; in the root of the repository, run: \
             cargo run -p millrace -- schema --markdown > docs/configuration.md"
        );
    }
}
