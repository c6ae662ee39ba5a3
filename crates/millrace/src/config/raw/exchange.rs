//! `[[exchange]]` as it is written.

use super::{At, Field};
use engine::spec::MOST_BUFFERS;
use schemars::JsonSchema;
use std::ops::Range;

/// Buffers of a group.
pub const EXCHANGE_BUFFERS: Range<i64> = 1..MOST_BUFFERS as i64 + 1;
/// Default of `buffers`: enough for a dozen functions with two ports of 256 descriptors each.
pub const DEFAULT_EXCHANGE_BUFFERS: i64 = 16_384;
/// Bytes of frames that fit into a buffer.
pub const BUFFER_SIZES: Range<i64> = 64..65_536;
/// Default of `buffer-size`: that of DPDK's packet buffers.
pub const DEFAULT_BUFFER_SIZE: i64 = 2048;
/// Bytes from which on frames are exchanged.
pub const THRESHOLDS: Range<i64> = 0..65_536;
/// Default of `threshold`.
pub const DEFAULT_THRESHOLD: i64 = 0;

/// One `[[exchange]]`.
#[derive(Clone, Debug, Default, serde::Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "exchange", extend("required" = ["ports"]))]
pub struct RawExchange {
    /// The ports, of driver `vhost-user`. A port can be in one exchange only; a function that has several ports needs all of
    /// them in the same one.
    #[schemars(length(min = 2))]
    pub ports: Field<Vec<At<String>>>,
    /// How frames change hands.
    #[schemars(extend("default" = "group"))]
    pub mode: Field<ExchangeMode>,
    /// Number of buffers, which the functions share out: each takes as many as its queues and its own store hold.
    #[schemars(range(min = EXCHANGE_BUFFERS.start, max = EXCHANGE_BUFFERS.end - 1), extend("default" = DEFAULT_EXCHANGE_BUFFERS))]
    pub buffers: Field<i64>,
    /// Bytes of the longest frame that fits into a buffer. A longer one is copied into several.
    #[schemars(range(min = BUFFER_SIZES.start, max = BUFFER_SIZES.end - 1), extend("default" = DEFAULT_BUFFER_SIZE))]
    pub buffer_size: Field<i64>,
    /// Bytes from which on frames are exchanged; shorter ones are copied.
    #[schemars(range(min = THRESHOLDS.start, max = THRESHOLDS.end - 1), extend("default" = DEFAULT_THRESHOLD))]
    pub threshold: Field<i64>,
}

/// How the frames of an exchange change hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum ExchangeMode {
    /// one owner runs the functions: they share buffers, and the switch exchanges two of them
    Group,
}
