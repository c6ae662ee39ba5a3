//! Numbers of what the switch has.

/// Number of tables that forward: 0 to 15.
pub const FORWARDING: u8 = 16;
