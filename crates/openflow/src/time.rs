//! Times, which callers pass in.

/// Milliseconds of a monotonic clock.
pub type Millis = u64;
