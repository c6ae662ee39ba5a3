//! Access to the socket: checks `socket-mode`, `socket-owner` and `socket-group`.

use crate::port::keys::Section;
use nix::unistd::{Group, User};
use settings::written::{At, Field};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use vhost_user::{Access, Mode};

/// The keys of a port that set the access to its socket.
#[derive(Clone, Copy)]
pub(super) struct AccessKeys<'k> {
    pub(super) mode: &'k Field<String>,
    pub(super) owner: &'k Field<String>,
    pub(super) group: &'k Field<String>,
}

/// Builds the access settings of a port.
pub(super) fn build(section: &mut Section<'_>, keys: AccessKeys<'_>, mode: Mode) -> Access {
    let given = [("socket-mode", keys.mode), ("socket-owner", keys.owner), ("socket-group", keys.group)];
    for (key, at) in given.into_iter().filter_map(|(key, field)| Some((key, field.as_ref()?))) {
        if mode != Mode::Server {
            let help = "remove it; the program that listens on the socket decides who may connect";
            section.error(&at.span, format!("`{key}` has no effect in mode \"client\""), help);
        }
    }
    Access {
        mode: keys.mode.as_ref().and_then(|at| octal(section, at)),
        owner: keys.owner.as_ref().and_then(|at| {
            number(section, at, "user", |name| Ok(User::from_name(name)?.map(|user| user.uid.as_raw())))
        }),
        group: keys.group.as_ref().and_then(|at| {
            number(section, at, "group", |name| Ok(Group::from_name(name)?.map(|group| group.gid.as_raw())))
        }),
    }
}

fn octal(section: &mut Section<'_>, at: &At<String>) -> Option<u32> {
    let digits = at.value.strip_prefix('0').filter(|rest| rest.len() == 3).unwrap_or(&at.value);
    let mode = u32::from_str_radix(digits, 8).ok().filter(|_| digits.len() == 3 && !digits.starts_with('+'));
    match mode {
        None => section.error(
            &at.span,
            format!("`{}` is not a set of permissions", at.value),
            "give three octal digits, e.g. socket-mode = \"0660\" for the owner and the group",
        ),
        Some(mode) if mode & 0o222 == 0 => section.error(
            &at.span,
            format!("nobody could connect to a socket of mode {}", at.value),
            "connecting requires write permission: give e.g. \"0660\"",
        ),
        Some(_) => {}
    }
    mode
}

/// Names resolved so far. A confined switch can't look them up again on a reload.
static FOUND: Mutex<Option<HashMap<(&str, String), u32>>> = Mutex::new(None);

/// Resolves a user or group, given by number or by name.
fn number(
    section: &mut Section<'_>,
    at: &At<String>,
    what: &'static str,
    find: impl Fn(&str) -> nix::Result<Option<u32>>,
) -> Option<u32> {
    // The highest number means "unchanged".
    if let Some(id) = at.value.parse().ok().filter(|&id| id != u32::MAX) {
        return Some(id);
    }
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let found = found.get_or_insert_default();
    let key = (what, at.value.clone());
    match find(&at.value) {
        Ok(Some(id)) => {
            found.insert(key, id);
            Some(id)
        }
        Ok(None) => {
            let help = format!("create it before, or give the number of another {what}");
            section.error(&at.span, format!("there is no {what} `{}`", at.value), help);
            None
        }
        Err(error) => {
            let known = found.get(&key).copied();
            if known.is_none() {
                let help =
                    format!("give the number of the {what}; a switch that runs confined can't look up new names");
                section.error(&at.span, format!("cannot look up the {what} `{}`: {error}", at.value), help);
            }
            known
        }
    }
}
