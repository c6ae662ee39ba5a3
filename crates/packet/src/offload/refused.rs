//! Reasons for which a description is refused.

use super::MIN_SEGMENT;
use std::fmt;

/// What is wrong with the description of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It asks for work that was not agreed on.
    NotNegotiated,
    /// It says that the frame was made of several.
    Coalesced,
    /// It asks for segments without checksums.
    NoChecksum,
    /// It asks for segments of an unknown kind, or of one that does not exist.
    Type,
    /// The bytes that its checksum covers, or the field, do not lie in the frame's payload.
    Outside,
    /// It asks for a checksum of SCTP, which is of another kind.
    Crc,
    /// Its segments are too short.
    Size,
    /// The frame has no TCP or UDP header that could be repeated.
    Headers,
    /// The headers of the frame are others.
    Mismatch,
    /// The IP header of the frame has another length.
    Length,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Refused::NotNegotiated => "it asks for an offload that was not negotiated",
            Refused::Coalesced => "it is marked as coalesced segments, which was not negotiated",
            Refused::NoChecksum => "it asks for segmentation and not for the checksum",
            Refused::Type => "it asks for segments of a type that is not known, or not for TCP with ECN",
            Refused::Outside => "start or offset of the checksum lie outside of the frame's payload",
            Refused::Crc => "it asks for the checksum of SCTP, which no offload covers",
            Refused::Size => return write!(f, "it asks for segments of less than {MIN_SEGMENT} bytes"),
            Refused::Headers => "it has no whole TCP or UDP header, it is a fragment, or it is on a route",
            Refused::Mismatch => "its headers are not those that its description names",
            Refused::Length => "the length in its IP header is not that of the frame",
        };
        f.write_str(text)
    }
}

impl std::error::Error for Refused {}
