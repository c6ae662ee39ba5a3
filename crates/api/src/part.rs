//! Ports, bridges and patches as they come and go by calls.

use crate::reload::ReloadAction;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Kind of a part. Parts refer to those of earlier kinds only, but for ports, which may name their bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PartKind {
    /// A bridge.
    Bridge,
    /// A port.
    Port,
    /// A patch, named by its ports.
    Patch,
}

impl fmt::Display for PartKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.section())
    }
}

impl PartKind {
    /// All kinds.
    pub const ALL: [PartKind; 3] = [PartKind::Bridge, PartKind::Port, PartKind::Patch];

    /// Returns the name of its sections in the file.
    pub fn section(self) -> &'static str {
        match self {
            PartKind::Bridge => "bridge",
            PartKind::Port => "port",
            PartKind::Patch => "patch",
        }
    }
}

/// The one who decides on a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// The configuration file.
    #[default]
    File,
    /// The API.
    Api,
}

impl Owner {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Owner::File => "file",
            Owner::Api => "api",
        }
    }
}

/// The effect of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The part is new.
    Added,
    /// The part has other settings.
    Changed,
    /// The part is gone.
    Removed,
    /// All was as wanted.
    Unchanged,
}

/// The answer to a call that changes parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// Kind of the part.
    pub kind: PartKind,
    /// Its name.
    pub name: String,
    /// The effect.
    pub effect: Effect,
    /// Actions that the change took on this part and on others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<ReloadAction>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = match self.effect {
            Effect::Added => "added",
            Effect::Changed => "changed",
            Effect::Removed => "removed",
            Effect::Unchanged => "nothing to do for",
        };
        write!(f, "{effect} {} {}", self.kind, self.name)
    }
}
