//! Names of interfaces.

use crate::error::{Error, Result};

/// Applies the kernel's rules for names (`dev_valid_name`) early, for a better message than EINVAL.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.len() >= libc::IFNAMSIZ {
        "it is longer than 15 bytes"
    } else if name == "." || name == ".." {
        "it is a directory name"
    } else if name.bytes().any(|byte| byte == b'/' || byte == b':' || byte == 0 || byte.is_ascii_whitespace()) {
        "it contains '/', ':', white space or a zero byte"
    } else {
        return Ok(());
    };
    Err(Error::Name { name: name.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["lo", "eth0", "tap%d", "fifteen-bytes-x", "a.5"] {
            check_name(good).unwrap();
        }
        for bad in ["", "sixteen-bytes-xx", ".", "..", "a/b", "a b", "a:1", "a\0b"] {
            check_name(bad).unwrap_err();
        }
    }
}
