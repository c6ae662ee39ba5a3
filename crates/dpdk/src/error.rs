//! Errors of control functions; the data path returns counts instead.

use std::path::PathBuf;

/// Result of a control function.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason why DPDK, a device or memory can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no plugin.
    #[error(
        "there is no plugin for DPDK at {}: install the package millrace-dpdk; or install the Debian package libdpdk-dev and run \
         `make -C dpdk/port`; or name it by MILLRACE_DPDK_PLUGIN", path.display()
    )]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The file can't be loaded.
    #[error(
        "the plugin for DPDK at {} can't be loaded: {reason}; if a library is missing, install the Debian package dpdk", path.display()
    )]
    Load {
        /// The file.
        path: PathBuf,
        /// The loader's words.
        reason: String,
    },
    /// The file is a plugin for another version of this program.
    #[error(
        "the plugin for DPDK at {} has version {found} of the interface, and this program needs {needed}: run `make -C dpdk/port` \
         again", path.display()
    )]
    Abi {
        /// The file.
        path: PathBuf,
        /// The plugin's version.
        found: u32,
        /// This program's version.
        needed: u32,
    },
    /// DPDK was started before.
    #[error("DPDK was started before, and a process can do so only once")]
    Started,
    /// The device is in use by this process.
    #[error("device {device:?} is in use by another port")]
    Busy {
        /// The device, as it was named.
        device: String,
    },
    /// The device has been closed.
    #[error("device {device:?} is closed; attach it again")]
    Closed {
        /// The device, as it was named.
        device: String,
    },
    /// The device can't receive into buffers of others.
    #[error("device {device:?} can't be used: {reason}")]
    Refused {
        /// The device, as it was named.
        device: String,
        /// The reason, and what to use instead if there is something.
        reason: String,
    },
    /// A value does not fit.
    #[error("{0}")]
    Invalid(String),
    /// DPDK, or a driver, has refused the request.
    #[error("{sentence}")]
    Failed {
        /// The call that failed, and the message of DPDK.
        sentence: String,
        /// The error's number, as in `errno`.
        errno: i32,
    },
}

impl Error {
    /// Reports whether the driver lacks the function, so that there is no use in another attempt.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Error::Failed { errno, .. } if [libc::ENOTSUP, libc::ENOSYS].contains(errno))
    }
}
