//! `[[exchange]]` as it is written.

use super::{At, Field};
use engine::spec::MOST_BUFFERS;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// Buffers of a group.
pub const EXCHANGE_BUFFERS: Range<i64> = 1..MOST_BUFFERS as i64 + 1;
/// Default of `buffers`.
pub const DEFAULT_EXCHANGE_BUFFERS: i64 = engine::spec::DEFAULT_BUFFERS as i64;
/// Bytes of frames that fit into a buffer.
pub const BUFFER_SIZES: Range<i64> = 64..65_536;
/// Default of `buffer-size`.
pub const DEFAULT_BUFFER_SIZE: i64 = engine::spec::DEFAULT_BUFFER_SIZE as i64;
/// Default of `device`.
pub const DEFAULT_DEVICE: &str = "/dev/zcopy";
/// Bytes from which on frames are exchanged.
pub const THRESHOLDS: Range<i64> = 0..65_536;

/// One `[[exchange]]`.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "exchange", extend("required" = ["ports"]))]
pub struct RawExchange {
    /// The ports, of driver `vhost-user`. A port can be in one exchange only; a function that has several ports needs all of
    /// them in the same one.
    #[schemars(length(min = 2))]
    pub ports: Field<Vec<At<String>>>,
    /// Kind of exchange.
    #[schemars(extend("default" = "group"))]
    pub mode: Field<ExchangeMode>,
    /// Device of the kernel module, in mode `zcopy`.
    #[schemars(extend("default" = DEFAULT_DEVICE))]
    pub device: Field<String>,
    /// Number of buffers in mode `group`, which are shared out among the functions: each takes as many as its queues and its
    /// own store hold.
    #[schemars(range(min = EXCHANGE_BUFFERS.start, max = EXCHANGE_BUFFERS.end - 1), extend("default" = DEFAULT_EXCHANGE_BUFFERS))]
    pub buffers: Field<i64>,
    /// Bytes of the longest frame that fits into a buffer, in mode `group`. A longer one is copied into several.
    #[schemars(range(min = BUFFER_SIZES.start, max = BUFFER_SIZES.end - 1), extend("default" = DEFAULT_BUFFER_SIZE))]
    pub buffer_size: Field<i64>,
    /// Length in bytes from which frames are exchanged; shorter ones are copied. `"measured"`: the length from which an
    /// exchange is faster than a copy. In mode `group` the switch finds it while frames flow; in mode `zcopy` when the first
    /// function joins.
    #[schemars(extend("default" = "measured"))]
    pub threshold: Field<Threshold>,
}

/// A number of bytes, or `"measured"`.
#[derive(Clone, Copy, Debug)]
pub enum Threshold {
    /// This many.
    Bytes(i64),
    /// As measured.
    Measured,
}

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ThresholdVisitor;
        impl Visitor<'_> for ThresholdVisitor {
            type Value = Threshold;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes or \"measured\"")
            }
            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Threshold, E> {
                Ok(Threshold::Bytes(bytes))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Threshold, E> {
                match text {
                    "measured" => Ok(Threshold::Measured),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(ThresholdVisitor)
    }
}

impl Serialize for Threshold {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Threshold::Bytes(bytes) => serializer.serialize_i64(bytes),
            Threshold::Measured => serializer.serialize_str("measured"),
        }
    }
}

impl JsonSchema for Threshold {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "threshold".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let (least, most) = (THRESHOLDS.start, THRESHOLDS.end - 1);
        schemars::json_schema!({"anyOf": [{"type": "integer", "minimum": least, "maximum": most}, {"const": "measured"}]})
    }
}

/// How the frames of an exchange change hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum ExchangeMode {
    /// one owner runs the functions: they share buffers, and the switch exchanges two of them
    Group,
    /// the functions need not trust each other: each has pages of its own, and the kernel module zcopy exchanges two of them
    Zcopy,
}
