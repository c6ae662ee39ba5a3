//! Limits of the switch.

/// Number of tables that forward: 0 to 15.
pub const FORWARDING: u8 = 16;

/// Maximum number of flows in all tables: other controllers wait while one changes all of them.
pub const MAX_FLOWS: usize = 1 << 18;

/// Maximum number of masks in all tables that forward: sets of fields, and of their bits, that flows match. A look-up takes one step for
/// each mask of its table.
pub const MAX_MASKS: usize = 1 << 10;

/// Maximum number of bytes of all flows and groups, as estimated by the number of their actions.
pub const MAX_BYTES: usize = 512 << 20;
