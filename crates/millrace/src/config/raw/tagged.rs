//! The keys of a `[[port]]`, by driver.

use super::RawPort;
use super::port::schemas;
use engine::port::kinds::KINDS;
use serde_json::Value;
use settings::{Tagged, Variant};

/// Returns how the keys of a `[[port]]` depend on its driver.
pub fn tagged() -> Tagged {
    let schema = schemars::schema_for!(RawPort);
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

fn keys(table: &Value) -> Vec<String> {
    table["properties"].as_object().into_iter().flat_map(|keys| keys.keys().cloned()).collect()
}
