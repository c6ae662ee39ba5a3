//! Values that have a form of their own.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a service listens.
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

/// Whether `name` can name a port or a bridge: a dot would read as a queue number in `a.1`.
pub(super) fn is_name(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Whether the kernel takes `name` for a network interface (`dev_valid_name`).
pub(super) fn is_interface_name(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && name != "."
        && name != ".."
        && !name.bytes().any(|byte| byte == b'/' || byte == b':' || byte == 0 || byte.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_where_they_are_used() {
        assert!(is_name("vm-1_a"));
        assert!(!is_name("a.1") && !is_name("") && !is_name(&"x".repeat(33)) && !is_name("ä"));
        assert!(is_interface_name("eth0.10"));
        assert!(!is_interface_name("eth0:1") && !is_interface_name("a b") && !is_interface_name(&"x".repeat(16)));
    }
}
