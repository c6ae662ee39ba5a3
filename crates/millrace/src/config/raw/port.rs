//! The keys of a `[[port]]` that depend on its driver.

use engine::port::kinds::{DriverKeys, KINDS};
use schemars::{Schema, SchemaGenerator};
use serde_json::json;

/// Returns the schema of the keys of each driver, in the order of [`KINDS`].
pub(super) fn schemas() -> Vec<Schema> {
    DriverKeys::schemas(&mut SchemaGenerator::default())
}

/// Adds the keys of each driver to the schema of a port.
pub(super) fn add_keys_of_drivers(port: &mut Schema) {
    let only_with = |((name, _), schema): (&(&str, _), Schema)| json!({"if": {"properties": {"driver": {"const": name}}}, "then": {"properties": schema.get("properties")}});
    port.insert("allOf".into(), KINDS.iter().zip(schemas()).map(only_with).collect());
    // Unlike `additionalProperties`, this also knows the keys of the driver.
    port.remove("additionalProperties");
    port.insert("unevaluatedProperties".into(), false.into());
}
