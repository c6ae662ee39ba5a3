//! All switches: Millrace in its modes, and its peers.

mod millrace;

use lab::switch::SwitchKind;
use std::path::Path;

/// Returns all switches; `millrace` is Millrace's program.
pub fn all(millrace: &Path) -> Vec<Box<dyn SwitchKind>> {
    let own =
        millrace::Mode::ALL.iter().map(|mode| Box::new(millrace::Bridge::new(*mode, millrace)) as Box<dyn SwitchKind>);
    own.chain(lab::switch::all()).collect()
}

/// Returns the switch of this name, or the names that there are.
pub fn named(name: &str, millrace: &Path) -> Result<Box<dyn SwitchKind>, String> {
    let switches = all(millrace);
    let names: Vec<_> = switches.iter().map(|switch| switch.name()).collect();
    let unknown = format!("there is no switch {name:?}; there are {}", names.join(", "));
    switches.into_iter().find(|switch| switch.name() == name).ok_or(unknown)
}
