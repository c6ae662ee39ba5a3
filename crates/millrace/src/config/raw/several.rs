//! A list of things, or all there are.

use super::{At, VIDS};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// Some or all VLANs, ports, ...
#[derive(Clone, Debug)]
pub enum Several<T> {
    /// All.
    All,
    /// These.
    List(Vec<At<T>>),
}

/// Elements that a key can list.
pub trait Listed {
    /// Their name in the configuration file.
    const NAME: &str;
    /// Each of them, and of how many at least.
    fn items() -> (Value, u32);
}

/// VLANs.
impl Listed for i64 {
    const NAME: &str = "VLAN identifiers";
    fn items() -> (Value, u32) {
        (json!({"type": "integer", "minimum": VIDS.start, "maximum": VIDS.end - 1}), 1)
    }
}

/// Ports.
impl Listed for String {
    const NAME: &str = "port names";
    fn items() -> (Value, u32) {
        (json!({"type": "string"}), 0)
    }
}

impl<'de, T: Listed + Deserialize<'de>> Deserialize<'de> for Several<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SeveralVisitor<T>(PhantomData<T>);
        impl<'de, T: Listed + Deserialize<'de>> Visitor<'de> for SeveralVisitor<T> {
            type Value = Several<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an array of {} or \"all\"", T::NAME)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Several<T>, E> {
                match text {
                    "all" => Ok(Several::All),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Several<T>, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = seq.next_element()? {
                    list.push(item);
                }
                Ok(Several::List(list))
            }
        }
        deserializer.deserialize_any(SeveralVisitor(PhantomData))
    }
}

impl<T: Serialize> Serialize for Several<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Several::All => serializer.serialize_str("all"),
            Several::List(list) => list.serialize(serializer),
        }
    }
}

impl<T: Listed> JsonSchema for Several<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let (items, least) = T::items();
        schemars::json_schema!({"anyOf": [{"type": "array", "items": items, "minItems": least}, {"const": "all"}]})
    }
}
