//! A captured frame.

use std::time::Duration;

/// A captured frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Time since 1970.
    pub time: Duration,
    /// Captured bytes, starting with the destination address.
    pub bytes: Vec<u8>,
}
