//! Confinement of the running switch: guests write to memory that it reads, and a guest that takes it over must gain as little
//! as possible.
//!
//! One thread applies all of it before any other starts, so that every thread inherits it. Capabilities and landlock are per
//! thread, and nothing here depends on a list of threads. It happens before the ports are opened: a reload opens ports under
//! these restrictions anyway, so one that breaks them shows at once.
//! docs/security.md is for operators.

mod landlock;
mod privileges;
mod seccomp;

pub use privileges::PrivilegeError;

use crate::config::{Confinement, Reach};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The confinement in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    pub places: Vec<Place>,
}

/// One kernel mechanism.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// Whether it is in force.
    pub active: bool,
    /// Details, or the reason why not.
    pub detail: String,
}

/// A directory with everything beneath it, or a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its path.
    pub path: String,
    /// Permitted use.
    pub purpose: String,
}

impl Layer {
    fn active(detail: impl Into<String>) -> Self {
        Self { active: true, detail: detail.into() }
    }

    fn absent(detail: impl fmt::Display) -> Self {
        Self { active: false, detail: detail.to_string() }
    }
}

/// Confines this thread and all that it starts later, as `settings` say, to the places in `reach`. Skips what the kernel does
/// not offer, and says so in the result; failing to become the user is an error.
pub fn confine(settings: &Confinement, reach: &Reach) -> Result<Confined, PrivilegeError> {
    // The switch starts no programs, so this can't break anything.
    let no_new_privs = rustix::thread::set_no_new_privs(true).is_ok();
    if !settings.enabled {
        let off = || Layer::absent("switched off by the configuration");
        let (capabilities, user) = (privileges::held()?, privileges::user());
        return Ok(Confined {
            no_new_privs,
            capabilities,
            user,
            seccomp: off(),
            landlock: off(),
            ..Confined::default()
        });
    }
    let bpf = privileges::reduce(settings.user.as_deref())?;
    // Look up user names first: landlock closes the files needed for it.
    let (capabilities, user) = (privileges::held()?, privileges::user());
    let landlock = landlock::restrict(reach);
    let seccomp = seccomp::install(bpf);
    let places = if landlock.active { places(reach) } else { Vec::new() };
    Ok(Confined { enabled: true, no_new_privs, capabilities, user, seccomp, landlock, places })
}

fn places(reach: &Reach) -> Vec<Place> {
    let place = |(path, purpose): (String, String)| Place { path, purpose };
    let own = reach.grants().iter().map(|grant| (grant.path.display().to_string(), grant.purpose.to_string()));
    let controllers = reach.controllers().iter().map(|port| (format!("TCP port {port}"), "connect".to_owned()));
    let system = landlock::SYSTEM.map(|(path, purpose)| (path.to_owned(), purpose.to_owned()));
    own.chain(controllers).chain(system).map(place).collect()
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
