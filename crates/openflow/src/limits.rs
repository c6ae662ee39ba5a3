//! Numbers of what the switch has.

/// Number of tables that forward: 0 to 15.
pub const FORWARDING: u8 = 16;

/// Flows of all tables at most: other controllers wait while one changes all of them.
pub const MAX_FLOWS: usize = 1 << 18;

/// Masks of the flows of all tables that forward at most: sets of fields, and of their bits, that flows match. A look-up takes one step
/// for each mask of its table.
pub const MAX_MASKS: usize = 1 << 10;

/// Bytes of all flows and groups at most, as estimated by the number of their actions.
pub const MAX_BYTES: usize = 512 << 20;
