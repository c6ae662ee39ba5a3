//! Confinement of the running switch: guests write to memory that it reads, and a guest that takes it over must gain as little
//! as possible.
//!
//! One thread applies all of it before any other of the switch starts, so that every thread inherits it. Capabilities and landlock are
//! per thread, and nothing here depends on a list of threads. It happens before the ports are opened: a reload opens ports under
//! these restrictions anyway, so one that breaks them shows at once. System calls are refused last, in all threads: DPDK, whose drivers
//! are libraries, is loaded and starts a thread before that, and has no more privileges than the rest.
//! docs/security.md is for operators.

mod landlock;
mod privileges;
mod seccomp;

pub use privileges::PrivilegeError;

use crate::config::{Confinement, Reach};
use api::confinement::{Confined, Layer, PermittedPath};

/// A switch that is confined, but for its system calls: it can still load libraries.
#[must_use = "system calls are not refused yet"]
pub struct Confining {
    confined: Confined,
    /// Whether bpf(2) is still usable.
    bpf: bool,
}

impl Confining {
    /// Refuses system calls that are not needed, in all threads.
    pub fn finish(self) -> Confined {
        let Confining { confined, bpf } = self;
        if !confined.enabled {
            return confined;
        }
        Confined { seccomp: seccomp::install(bpf), ..confined }
    }
}

/// Confines this thread and all that it starts later, as `settings` say, to the places in `reach`. Skips mechanisms that the
/// kernel does not offer, and says so in the result; failing to become the user is an error.
pub fn confine(settings: &Confinement, reach: &Reach) -> Result<Confining, PrivilegeError> {
    // The switch starts no programs, so this can't break anything.
    let no_new_privs = rustix::thread::set_no_new_privs(true).is_ok();
    if !settings.enabled {
        let off = || Layer::absent("switched off by the configuration");
        let (capabilities, user) = (privileges::held()?, privileges::user());
        let (seccomp, landlock) = (off(), off());
        let confined = Confined { no_new_privs, capabilities, user, seccomp, landlock, ..Confined::default() };
        return Ok(Confining { confined, bpf: true });
    }
    let bpf = privileges::reduce(settings.user.as_deref())?;
    // Look up user names first: landlock closes the files needed for it.
    let (capabilities, user) = (privileges::held()?, privileges::user());
    let landlock = landlock::restrict(reach);
    let places = if landlock.active { places(reach) } else { Vec::new() };
    let seccomp = Layer::absent("it is not in force yet");
    let confined = Confined { enabled: true, no_new_privs, capabilities, user, seccomp, landlock, places };
    Ok(Confining { confined, bpf })
}

fn places(reach: &Reach) -> Vec<PermittedPath> {
    let place = |(path, purpose): (String, String)| PermittedPath { path, purpose };
    let own = reach.grants().iter().map(|grant| (grant.path.display().to_string(), grant.purpose.to_string()));
    let controllers = reach.controllers().iter().map(|port| (format!("TCP port {port}"), "connect".to_owned()));
    let system = landlock::SYSTEM.map(|(path, purpose)| (path.to_owned(), purpose.to_owned()));
    own.chain(controllers).chain(system).map(place).collect()
}
