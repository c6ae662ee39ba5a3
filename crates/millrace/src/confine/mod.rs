//! What the running switch denies itself: guests write to the memory that it reads, and should one of them ever take
//! it over, it is to find little there that is worth having.
//!
//! All of it is done by one thread before there is another, so that every thread inherits it. Capabilities and landlock
//! are per thread, and nothing here depends on a list of threads. It is done before the ports are opened, not after:
//! a reload opens ports under these restrictions anyway, and a restriction that is in its way had better show at once.
//! docs/security.md is for people who run switches.

mod landlock;
mod privileges;
mod seccomp;

pub use privileges::PrivilegeError;

use crate::config::{Confinement, Reach};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What came out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confined {
    /// The configuration asks for it.
    pub enabled: bool,
    /// No program that is started can have more privileges than this one.
    pub no_new_privs: bool,
    /// Capabilities that are left, by name.
    pub capabilities: Vec<String>,
    /// The user whose rights the switch has.
    pub user: String,
    /// System calls are filtered.
    pub seccomp: Layer,
    /// Files are out of reach.
    pub landlock: Layer,
    /// But for these.
    pub places: Vec<Place>,
}

/// One mechanism of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// It is at work.
    pub active: bool,
    /// How, or why not.
    pub detail: String,
}

/// A directory with all that is beneath it, or a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its path.
    pub path: String,
    /// What the switch can do there.
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

/// Confines this thread, and all that it starts from now on, as `settings` say, to what is within `reach`. What the
/// kernel does not offer is left out, and the result says so; a user that cannot be had is an error.
pub fn confine(settings: &Confinement, reach: &Reach) -> Result<Confined, PrivilegeError> {
    // The switch starts no programs: there is nothing that this could keep from working.
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
    // Landlock closes the files that user names are looked up in.
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
    /// What is asked for and missing, one line each.
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
