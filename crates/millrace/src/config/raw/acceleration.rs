//! The key `acceleration` as it is written.

use schemars::JsonSchema;

/// Whether the switch chooses by itself where frames need not be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Acceleration {
    /// wherever it is safe
    Auto,
    /// nowhere: only what `[[mapping]]` and `[[exchange]]` say
    Off,
}
