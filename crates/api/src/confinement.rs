//! The confinement of the switch in force.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The confinement in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Confined {
    /// Whether the configuration enables it.
    pub enabled: bool,
    /// Whether no_new_privs is set: no program started could gain privileges.
    pub no_new_privs: bool,
    /// Names of the remaining capabilities.
    pub capabilities: Vec<String>,
    /// User that the switch runs as.
    pub user: String,
    /// System call filter.
    pub seccomp: Layer,
    /// File access restrictions.
    pub landlock: Layer,
    /// Places still accessible.
    pub places: Vec<PermittedPath>,
}

/// One kernel mechanism.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Layer {
    /// Whether it is in force.
    pub active: bool,
    /// Details, or the reason why not.
    pub detail: String,
}

/// A directory with everything beneath it, or a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PermittedPath {
    /// Its path.
    pub path: String,
    /// Permitted use.
    pub purpose: String,
}

impl Layer {
    /// Returns a mechanism that is in force.
    pub fn active(detail: impl Into<String>) -> Self {
        Self { active: true, detail: detail.into() }
    }

    /// Returns a mechanism that is not in force, for this reason.
    pub fn absent(detail: impl fmt::Display) -> Self {
        Self { active: false, detail: detail.to_string() }
    }
}

impl Confined {
    /// Returns a line for each requested layer that is missing.
    pub fn missing(&self) -> impl Iterator<Item = String> {
        let layers = [("seccomp", &self.seccomp), ("landlock", &self.landlock)];
        let lines = layers.map(|(name, layer)| {
            (self.enabled && !layer.active).then(|| format!("no {name} confinement: {}", layer.detail))
        });
        lines.into_iter().flatten()
    }
}

impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.enabled {
            return f.write_str("not confined: switched off by the configuration");
        }
        let capabilities = match &self.capabilities[..] {
            [] => "no capabilities".to_owned(),
            list => list.join(" "),
        };
        write!(f, "confined: user {}, {capabilities}", self.user)?;
        for (name, layer) in [("seccomp", &self.seccomp), ("landlock", &self.landlock)] {
            match layer.active {
                true => write!(f, "; {name}: {}", layer.detail)?,
                false => write!(f, "; no {name}")?,
            }
        }
        Ok(())
    }
}
