//! Validates and builds `[confinement]`.

use super::check::Check;
use super::raw::{At, RawConfinement, Table};
use super::types::Confinement;

pub(super) fn build(check: &mut Check<'_>, raw: Option<&At<Table<RawConfinement>>>) -> Confinement {
    let Some(raw) = raw else {
        return Confinement { enabled: true, user: None, directories: Vec::new() };
    };
    let enabled = raw.enabled.as_ref().is_none_or(|at| at.value);
    let user = raw.user.as_ref().map(|at| {
        if !enabled {
            check.error(
                &at.span,
                "`user` means nothing with `enabled = false`",
                "remove one of them; without confinement the switch stays the user who starts it",
            );
        }
        if at.is_empty() || at.contains('\0') {
            check.error(&at.span, "this cannot name a user", "give the name of a user of this machine");
        }
        at.value.clone()
    });
    let directories = raw.directories.iter().flat_map(|list| &list.value).map(|at| check.path(at)).collect();
    Confinement { enabled, user, directories }
}
