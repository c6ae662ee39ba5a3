//! Snapshot lengths: the most bytes of a packet that a capture has.

/// Most bytes of an Ethernet frame that any capture has (libpcap's MAXIMUM_SNAPLEN).
pub(crate) const MOST: u32 = 262_144;

/// Returns the snapshot length that a file means. As libpcap has it, none and an impossible one mean the greatest.
pub(crate) fn most(given: u32) -> u32 {
    if given == 0 || given > i32::MAX as u32 { MOST } else { given }
}
