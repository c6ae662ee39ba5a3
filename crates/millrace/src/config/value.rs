//! Values with their own syntax.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Address that a service listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// Loopback TCP.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Reports whether `name` is a valid port or bridge name: a dot would read as a queue number in `a.1`.
pub(super) fn is_name(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Returns the name of a DPDK device, without its arguments.
pub(super) fn device_name(device: &str) -> &str {
    device.split_once(',').map_or(device, |(name, _)| name)
}

/// Reports whether the kernel accepts `name` as the name of a network interface (`dev_valid_name`).
pub(super) fn is_interface_name(name: &str) -> bool {
    // The kernel puts a number in the place of `%d`.
    let is_bad = |byte: u8| b"/:%\0".contains(&byte) || byte.is_ascii_whitespace();
    (1..=15).contains(&name.len()) && name != "." && name != ".." && !name.bytes().any(is_bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_where_they_are_used() {
        assert!(is_name("vm-1_a"));
        assert!(!is_name("a.1") && !is_name("") && !is_name(&"x".repeat(33)) && !is_name("ä"));
        assert!(is_interface_name("eth0.10"));
        assert!(
            !is_interface_name("eth0:1")
                && !is_interface_name("a b")
                && !is_interface_name("tap%d")
                && !is_interface_name(&"x".repeat(16))
        );
    }
}
