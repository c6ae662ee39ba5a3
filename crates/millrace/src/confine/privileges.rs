//! User and capabilities (capabilities(7)): those the switch starts with, and those it keeps.

use nix::unistd::{Gid, Uid, User, geteuid, initgroups, setresgid, setresuid};
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, remove_capability_from_bounding_set,
    set_capabilities, set_keep_capabilities,
};
use std::ffi::CString;
use std::io;

/// Capabilities needed for ports that a reload may open. The switch keeps those of them that it was started with.
///
/// - `NET_ADMIN`: create taps, set their MTU, bring interfaces up, attach XDP programs, give NICs flow rules, let long frames wait for
///   packet sockets.
/// - `NET_RAW`: packet sockets and AF_XDP sockets.
/// - `BPF`: load the program that steers frames to AF_XDP sockets.
/// - `IPC_LOCK`: without it, AF_XDP counts its pinned memory against the limit on locked memory.
const KEPT: CapabilitySet =
    CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW).union(CapabilitySet::BPF).union(CapabilitySet::IPC_LOCK);

/// Capability that the switch also keeps while it is root. Sockets belong to the user who runs the guests: without it, root
/// could not connect to them. Under landlock it opens no file that the configuration does not name; without landlock, root owns
/// the files that matter anyway.
const KEPT_BY_ROOT: CapabilitySet = CapabilitySet::DAC_OVERRIDE;

/// Error that keeps privileges from matching the configuration.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// The user does not exist.
    #[error(
        "`user` of [confinement] names \"{0}\", and there is no such user; create it (`useradd --system {0}`), or name another"
    )]
    NoSuchUser(String),
    /// The switch is not permitted to become the user.
    #[error("cannot become user \"{user}\": {source}; start the switch as root, or remove `user` from [confinement]")]
    Become {
        /// The user.
        user: String,
        /// The cause.
        source: io::Error,
    },
    /// A system call failed that should never fail.
    #[error("cannot {action}: {source}; [confinement] `enabled = false` does without")]
    System {
        /// The attempted action.
        action: &'static str,
        /// The cause.
        source: io::Error,
    },
}

/// Becomes `user`, if given, and drops all capabilities that are not needed. Returns whether bpf(2) is still usable.
pub(super) fn reduce(user: Option<&str>) -> Result<bool, PrivilegeError> {
    let failed = |action| move |source: Errno| PrivilegeError::System { action, source: source.into() };
    let had = capabilities(None).map_err(failed("read capabilities"))?;
    let kept = if user.is_none() { KEPT | KEPT_BY_ROOT } else { KEPT };
    // Needs SETPCAP. Without it the bounding set does not matter, because of no_new_privs.
    if had.effective.contains(CapabilitySet::SETPCAP) {
        bound(kept).map_err(failed("reduce the capability bounding set"))?;
    }
    if let Some(name) = user {
        become_user(name)?;
    }
    let left = had.permitted & kept;
    // Emptying the inheritable set also clears the ambient set.
    let sets = CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).map_err(failed("give up capabilities"))?;
    Ok(left.contains(CapabilitySet::BPF))
}

/// Returns the user's name, or else its number.
pub(super) fn user() -> String {
    let uid = geteuid();
    User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}

/// Returns the names of this thread's capabilities.
pub(super) fn held() -> Result<Vec<String>, PrivilegeError> {
    let held = capabilities(None)
        .map_err(|source| PrivilegeError::System { action: "read capabilities", source: source.into() })?;
    Ok(held.effective.iter_names().map(|(name, _)| format!("CAP_{name}")).collect())
}

/// Removes all capabilities that are not in `kept` from the bounding set, even those unknown to this program.
fn bound(kept: CapabilitySet) -> Result<(), Errno> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(capability) {
            Ok(true) if !kept.contains(capability) => remove_capability_from_bounding_set(capability)?,
            Ok(_) => {}
            // Past the last capability known to the kernel.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Becomes the user `name` with its groups; the permitted capabilities survive the change.
fn become_user(name: &str) -> Result<(), PrivilegeError> {
    let failed = |source: io::Error| PrivilegeError::Become { user: name.to_owned(), source };
    let User { uid, gid, .. } = User::from_name(name)
        .map_err(|errno| failed(errno.into()))?
        .ok_or_else(|| PrivilegeError::NoSuchUser(name.to_owned()))?;
    if uid == geteuid() {
        return Ok(());
    }
    set_keep_capabilities(true).map_err(|errno| failed(errno.into()))?;
    switch(name, uid, gid).map_err(failed)?;
    set_keep_capabilities(false).map_err(|errno| failed(errno.into()))
}

/// Changes groups first: the permission to do so is lost with the user.
fn switch(name: &str, uid: Uid, gid: Gid) -> io::Result<()> {
    initgroups(&CString::new(name)?, gid)?;
    setresgid(gid, gid, gid)?;
    setresuid(uid, uid, uid)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_reduced_to_the_kept_ones() {
        // On a separate thread: capabilities are per thread.
        let check = || {
            let before = capabilities(None).unwrap();
            reduce(None).unwrap();
            let after = capabilities(None).unwrap();
            let left = before.permitted & (KEPT | KEPT_BY_ROOT);
            assert_eq!((after.effective, after.permitted), (left, left));
            assert!(after.inheritable.is_empty());
            if before.effective.contains(CapabilitySet::SETPCAP) {
                assert!(!capability_is_in_bounding_set(CapabilitySet::SYS_ADMIN).unwrap());
            }
            assert_eq!(held().unwrap().len(), left.iter_names().count());
        };
        std::thread::spawn(check).join().unwrap();
    }

    #[test]
    fn a_missing_user_is_named() {
        let error = become_user("no-such-user").unwrap_err().to_string();
        assert!(error.starts_with("`user` of [confinement] names \"no-such-user\", and there is no such user; "));
    }
}
