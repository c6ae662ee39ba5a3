//! The number of queue pairs of a port.

use crate::port::keys::QUEUES;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::json;
use std::borrow::Cow;
use std::fmt;

/// A number of queue pairs, or as many as the peer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuesKey {
    /// As many as the peer asks for.
    Auto,
    /// This many, which may be out of range.
    Number(i64),
}

impl<'de> Deserialize<'de> for QueuesKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct QueuesVisitor;
        impl Visitor<'_> for QueuesVisitor {
            type Value = QueuesKey;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of queue pairs or \"auto\"")
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<QueuesKey, E> {
                Ok(QueuesKey::Number(number))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<QueuesKey, E> {
                match text {
                    "auto" => Ok(QueuesKey::Auto),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(QueuesVisitor)
    }
}

impl Serialize for QueuesKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            QueuesKey::Auto => serializer.serialize_str("auto"),
            QueuesKey::Number(number) => serializer.serialize_i64(number),
        }
    }
}

impl JsonSchema for QueuesKey {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "queues".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let number = json!({"type": "integer", "minimum": QUEUES.start, "maximum": QUEUES.end - 1});
        schemars::json_schema!({"anyOf": [number, {"const": "auto"}]})
    }
}
