//! Builds the keys that say what the switch may choose by itself.

use super::check::Check;
use super::raw::{self, Field, RawPort, Section};
use super::value::is_name;
use engine::port::kinds::KINDS;
use engine::spec::{Acceleration, Driver};

pub(super) fn build(field: &Field<raw::Acceleration>) -> Acceleration {
    match field.as_ref().map(|at| at.value) {
        None | Some(raw::Acceleration::Auto) => Acceleration::Auto,
        Some(raw::Acceleration::Off) => Acceleration::Off,
    }
}

/// Returns the name of a port's owner.
pub(super) fn group(check: &mut Check, raw: &Section<RawPort>) -> Option<String> {
    let at = raw.group.as_ref()?;
    if !is_name(at) {
        let message = format!("`{}` cannot name a group", at.value);
        check.error(&at.span, message, "use 1 to 32 letters, digits, `_` and `-`");
    }
    Some(at.value.clone())
}

/// Reports whether all guests trust the program behind a port with their memory.
pub(super) fn trusted(check: &mut Check, raw: &Section<RawPort>, driver: &Driver) -> bool {
    let Some(at) = raw.trusted.as_ref() else { return false };
    if !driver.capabilities().exposes_memory {
        let kinds: Vec<_> =
            KINDS.iter().filter(|(_, kind)| kind.capabilities.exposes_memory).map(|(name, _)| *name).collect();
        let message = format!("`trusted` says nothing at a port of driver {}", driver.name());
        let help =
            format!("remove it: only ports of driver {} give a program access to guests' memory", kinds.join(" and "));
        check.error(&at.span, message, help);
    }
    at.value
}
