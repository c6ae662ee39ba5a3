//! Users and capabilities (capabilities(7)): what the switch was started with and goes on with.

use nix::unistd::{Gid, Uid, User, geteuid, initgroups, setresgid, setresuid};
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, remove_capability_from_bounding_set,
    set_capabilities, set_keep_capabilities,
};
use std::ffi::CString;
use std::io;

/// What ports need that a reload may open. Whatever of it the switch was not started with, it does not have.
///
/// - `NET_ADMIN`: create taps, set their MTU, bring interfaces up, attach XDP programs.
/// - `NET_RAW`: packet sockets and AF_XDP sockets.
/// - `BPF`: load the program that steers frames to AF_XDP sockets.
/// - `IPC_LOCK`: AF_XDP counts the memory that it pins against the limit on locked memory of whoever lacks this.
const KEPT: CapabilitySet =
    CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW).union(CapabilitySet::BPF).union(CapabilitySet::IPC_LOCK);

/// What root keeps in addition as long as it is root. Sockets belong to whoever runs the guests: without this, root
/// could not connect to them. Within landlock it opens no file that the configuration does not name; without, root
/// owns the files that matter anyway.
const KEPT_BY_ROOT: CapabilitySet = CapabilitySet::DAC_OVERRIDE;

/// Privileges are not as the configuration wants them.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// There is no such user.
    #[error(
        "`user` of [confinement] names \"{0}\", and there is no such user; create it (`useradd --system {0}`), or name another"
    )]
    NoSuchUser(String),
    /// The switch may not become it.
    #[error("cannot become user \"{user}\": {source}; start the switch as root, or remove `user` from [confinement]")]
    Become {
        /// The user.
        user: String,
        /// Why not.
        source: io::Error,
    },
    /// The system refused something that it never should.
    #[error("cannot {action}: {source}; [confinement] `enabled = false` does without")]
    System {
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
}

/// Becomes `user`, if one is given, and gives up all capabilities that are not needed. True if bpf(2) is of use still.
pub(super) fn reduce(user: Option<&str>) -> Result<bool, PrivilegeError> {
    let failed = |action| move |source: Errno| PrivilegeError::System { action, source: source.into() };
    let had = capabilities(None).map_err(failed("read capabilities"))?;
    let kept = if user.is_none() { KEPT | KEPT_BY_ROOT } else { KEPT };
    // Needs SETPCAP. Who lacks it has a bounding set that is of no use, because of no_new_privs.
    if had.effective.contains(CapabilitySet::SETPCAP) {
        bound(kept).map_err(failed("reduce the capability bounding set"))?;
    }
    if let Some(name) = user {
        become_user(name)?;
    }
    let left = had.permitted & kept;
    // Ambient capabilities go with the inheritable ones.
    let sets = CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).map_err(failed("give up capabilities"))?;
    Ok(left.contains(CapabilitySet::BPF))
}

/// The user, by name or else by number.
pub(super) fn user() -> String {
    let uid = geteuid();
    User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}

/// Names of the capabilities that this thread has.
pub(super) fn held() -> Result<Vec<String>, PrivilegeError> {
    let held = capabilities(None)
        .map_err(|source| PrivilegeError::System { action: "read capabilities", source: source.into() })?;
    Ok(held.effective.iter_names().map(|(name, _)| format!("CAP_{name}")).collect())
}

/// Removes from the bounding set all that is not in `kept`, also what this program does not know yet.
fn bound(kept: CapabilitySet) -> Result<(), Errno> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(capability) {
            Ok(true) if !kept.contains(capability) => remove_capability_from_bounding_set(capability)?,
            Ok(_) => {}
            // Beyond the last one that the kernel knows.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Becomes the user called `name`, with its groups, and keeps the permitted capabilities meanwhile.
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

/// Groups first: the right to change them goes with the user.
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
        // On a thread of its own: capabilities are a thread's.
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
    fn a_user_that_is_not_there_is_named() {
        let error = become_user("no-such-user").unwrap_err().to_string();
        assert!(error.starts_with("`user` of [confinement] names \"no-such-user\", and there is no such user; "));
    }
}
