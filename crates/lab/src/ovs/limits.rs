//! Memory and time that Open vSwitch gets.

use std::time::Duration;

/// Memory that it uses, in MiB: its buffers, 262144 unless memory is short, need three quarters. If they do not fit, it tries
/// fewer; in the meantime it has none for a guest that connects, and disconnects it.
pub const MEGABYTES: u64 = 1024;

/// Time limit for a single operation of its programs.
pub(super) const LIMIT: Duration = Duration::from_secs(30);
