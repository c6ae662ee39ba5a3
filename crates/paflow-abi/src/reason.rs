//! Numbers of the reasons to drop a frame: those of [`Reject`].

use paflow::Reject;
use std::ffi::CStr;

/// Number of reasons; they are numbered from 1.
pub const COUNT: usize = 13;

/// The names, for C.
const NAMES: [&CStr; COUNT] = [
    c"unknown-version",
    c"unknown-type",
    c"empty",
    c"too-many",
    c"truncated",
    c"embedded-runt",
    c"bad-padding",
    c"length-mismatch",
    c"fragmented",
    c"bad-ip-checksum",
    c"bad-udp-checksum",
    c"no-udp-checksum",
    c"bad-vxlan-flags",
];

/// Returns the number of a reason.
#[cold]
pub fn number(reject: &Reject) -> i32 {
    match reject {
        Reject::UnknownVersion(_) => 1,
        Reject::UnknownType(_) => 2,
        Reject::Empty => 3,
        Reject::TooMany { .. } => 4,
        Reject::Truncated { .. } => 5,
        Reject::Runt(_) => 6,
        Reject::BadPadding(_) => 7,
        Reject::LengthMismatch { .. } => 8,
        Reject::Fragmented => 9,
        Reject::BadIpChecksum => 10,
        Reject::BadUdpChecksum => 11,
        Reject::NoUdpChecksum => 12,
        Reject::BadVxlanFlags(_) => 13,
    }
}

/// Returns the name of the reason of this number.
pub fn name(number: i32) -> Option<&'static CStr> {
    NAMES.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_counters() {
        let all = [
            Reject::UnknownVersion(2),
            Reject::UnknownType(2),
            Reject::Empty,
            Reject::TooMany { number: 1, room: 0 },
            Reject::Truncated { needed: 1, there: 0 },
            Reject::Runt(1),
            Reject::BadPadding(1),
            Reject::LengthMismatch { expected: 1, there: 0 },
            Reject::Fragmented,
            Reject::BadIpChecksum,
            Reject::BadUdpChecksum,
            Reject::NoUdpChecksum,
            Reject::BadVxlanFlags(1),
        ];
        for reject in &all {
            assert_eq!(name(number(reject)).unwrap().to_str(), Ok(reject.name()));
        }
        assert_eq!(all.len(), COUNT);
        assert_eq!((name(0), name(-1), name(14)), (None, None, None));
    }
}
