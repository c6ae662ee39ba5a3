//! The keys of a `[[port]]` that depend on its driver.

use engine::port::kinds::{DriverKeys, KINDS};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{self, Deserialize, Deserializer};
use serde_json::{Value, json};
use settings::{Tagged, Variant};
use std::borrow::Cow;
use std::sync::LazyLock;

/// Name of a kind of port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverName(pub &'static str);

/// All names, as serde wants them.
static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| KINDS.iter().map(|(name, _)| *name).collect());

impl<'de> Deserialize<'de> for DriverName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = NAMES.iter().find(|known| **known == name);
        known.map(|known| DriverName(known)).ok_or_else(|| de::Error::unknown_variant(&name, &NAMES))
    }
}

impl JsonSchema for DriverName {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "driver".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let kinds =
            KINDS.iter().map(|(name, kind)| json!({"type": "string", "const": name, "description": kind.about}));
        schemars::json_schema!({"oneOf": kinds.collect::<Vec<_>>()})
    }
}

/// Returns how the keys of a `[[port]]` depend on its driver.
pub fn tagged() -> Tagged {
    let schema = schemars::schema_for!(super::RawPort);
    let variants = KINDS.iter().zip(schemas()).map(|((name, kind), schema)| Variant {
        name,
        keys: keys(schema.as_value()),
        lacks: kind.lacks,
    });
    Tagged {
        section: "port",
        tag: "driver",
        into: "settings",
        common: keys(schema.as_value()),
        variants: variants.collect(),
    }
}

/// Returns the schema of the keys of each driver, in the order of [`KINDS`].
fn schemas() -> Vec<Schema> {
    DriverKeys::schemas(&mut SchemaGenerator::default())
}

fn keys(table: &Value) -> Vec<String> {
    table["properties"].as_object().into_iter().flat_map(|keys| keys.keys().cloned()).collect()
}

/// Adds the keys of each driver to the schema of a port.
pub(super) fn add_keys_of_drivers(port: &mut Schema) {
    let only_with = |((name, _), schema): (&(&str, _), Schema)| json!({"if": {"properties": {"driver": {"const": name}}}, "then": {"properties": schema.get("properties")}});
    port.insert("allOf".into(), KINDS.iter().zip(schemas()).map(only_with).collect());
    // Unlike `additionalProperties`, this also knows the keys of the driver.
    port.remove("additionalProperties");
    port.insert("unevaluatedProperties".into(), false.into());
}
