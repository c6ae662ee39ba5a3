//! The names of the kinds of ports, as values of the key `driver`.

use engine::port::kinds::KINDS;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::json;
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

impl Serialize for DriverName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
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
