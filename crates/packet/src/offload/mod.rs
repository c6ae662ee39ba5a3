//! Offloads: work on a frame that its sender left to others, and says so beside the frame.
//!
//! A sender may leave the transport checksum to its device, and the division of a long TCP or UDP message into segments
//! (virtio 1.2 §5.1.6.2; `CHECKSUM_PARTIAL` and GSO in Linux). Who receives such a frame needs the description; nobody else may.
//! A description is four bytes, checked when it is made, and travels with its frame ([`crate::Frame::offload`]). The headers of virtio
//! and of the kernel are read and written by [`header`]. A message for a receiver that cannot cut is cut by [`crate::segmenter`].

pub mod header;
mod layers;
pub(crate) mod message;
mod refused;
#[cfg(test)]
pub(crate) mod sample;

pub use layers::Layers;
pub use refused::Refused;

use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

/// Shortest segments that a message is cut into, in bytes of payload: shorter ones would cost more in headers than they carry.
pub const MIN_SEGMENT: u16 = 32;

/// Kinds of work, as a set: what a frame needs, or a receiver can do.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Offloads(u8);

impl Offloads {
    /// No work.
    pub const NONE: Offloads = Offloads(0);
    /// A checksum is to be finished.
    pub const CHECKSUM: Offloads = Offloads(1);
    /// A TCP message in IPv4 is to be cut into segments.
    pub const TCP4: Offloads = Offloads(2);
    /// A TCP message in IPv6.
    pub const TCP6: Offloads = Offloads(4);
    /// A TCP message whose first segment alone reports congestion (CWR, RFC 3168 §6.1.2).
    pub const ECN: Offloads = Offloads(8);
    /// A UDP message, of datagrams of equal length.
    pub const UDP: Offloads = Offloads(16);
    /// All of these.
    pub const ALL: Offloads = Offloads(31);
    /// The names of all kinds.
    pub const NAMES: [(Offloads, &str); 5] = [
        (Offloads::CHECKSUM, "checksum"),
        (Offloads::TCP4, "tcp4"),
        (Offloads::TCP6, "tcp6"),
        (Offloads::ECN, "ecn"),
        (Offloads::UDP, "udp"),
    ];

    /// Reports whether it is empty.
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Reports whether `others` are all among these.
    #[inline(always)]
    pub const fn has(self, others: Offloads) -> bool {
        others.0 & !self.0 == 0
    }

    /// Returns the kinds of cutting among these.
    #[inline(always)]
    pub fn segmentation(self) -> Offloads {
        self & !Offloads::CHECKSUM
    }

    /// Returns the names of these, in order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Offloads::NAMES.into_iter().filter_map(move |(kind, name)| self.has(kind).then_some(name))
    }
}

impl BitOr for Offloads {
    type Output = Offloads;

    #[inline(always)]
    fn bitor(self, other: Offloads) -> Offloads {
        Offloads(self.0 | other.0)
    }
}

impl BitOrAssign for Offloads {
    #[inline(always)]
    fn bitor_assign(&mut self, other: Offloads) {
        *self = *self | other;
    }
}

impl BitAnd for Offloads {
    type Output = Offloads;

    #[inline(always)]
    fn bitand(self, other: Offloads) -> Offloads {
        Offloads(self.0 & other.0)
    }
}

impl Not for Offloads {
    type Output = Offloads;

    fn not(self) -> Offloads {
        Offloads(!self.0 & Offloads::ALL.0)
    }
}

impl std::fmt::Debug for Offloads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// Protocol of a message that is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// TCP in IPv4.
    Tcp4,
    /// TCP in IPv6.
    Tcp6,
    /// UDP in IPv4 or IPv6.
    Udp,
}

/// A message that is to be cut into segments, each with the headers of the whole one. Its transport checksum is unfinished, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The protocol.
    pub message: Message,
    /// Payload of each segment but the last one, in bytes: at least [`MIN_SEGMENT`].
    pub size: u16,
    /// Offset of the transport header in the frame.
    pub start: u8,
    /// Length of the transport header in bytes: 20 to 60 in steps of 4 for TCP, 8 for UDP.
    pub header: u8,
    /// Whether CWR is for the first segment alone.
    pub ecn: bool,
}

/// Work on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// None: the frame is complete.
    Nothing,
    /// The checksum over all from `start` on belongs to `start + offset`, where the sum of the pseudo-header is now.
    Checksum {
        /// Offset in the frame.
        start: u16,
        /// Offset of the field from there.
        offset: u8,
    },
    /// The frame is to be cut.
    Cut(Cut),
}

/// The description of the work on one frame.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Offload(u32);

/// Values of the lowest bits of a description; the next one is [`ECN`].
const NOTHING: u32 = 0;
const CHECKSUM: u32 = 1;
const TCP4: u32 = 2;
const TCP6: u32 = 3;
const UDP: u32 = 4;
const KIND: u32 = 7;
const ECN: u32 = 8;

impl Offload {
    /// No work.
    pub const NONE: Offload = Offload(NOTHING);

    /// Returns the description of an unfinished checksum.
    pub const fn checksum(start: u16, offset: u8) -> Offload {
        Offload(CHECKSUM | (offset as u32) << 8 | (start as u32) << 16)
    }

    /// Returns the description of a frame that is to be cut. `None` if `cut` breaks its own terms.
    pub fn cut(cut: Cut) -> Option<Offload> {
        let kind = match cut.message {
            Message::Tcp4 => TCP4,
            Message::Tcp6 => TCP6,
            Message::Udp => UDP,
        };
        let is_header = match cut.message {
            Message::Udp => cut.header == 8 && !cut.ecn,
            _ => (20..=60).contains(&cut.header) && cut.header.is_multiple_of(4),
        };
        let ecn = if cut.ecn { ECN } else { 0 };
        let (start, size) = (u32::from(cut.start) << 8, u32::from(cut.size) << 16);
        (is_header && cut.size >= MIN_SEGMENT)
            .then_some(Offload(kind | ecn | u32::from(cut.header / 4) << 4 | start | size))
    }

    /// Reports whether the frame is complete.
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.0 == NOTHING
    }

    /// Returns the work.
    #[inline]
    pub fn work(self) -> Work {
        let [low, middle, ..] = self.0.to_le_bytes();
        let high = (self.0 >> 16) as u16;
        let message = match self.0 & KIND {
            NOTHING => return Work::Nothing,
            CHECKSUM => return Work::Checksum { start: high, offset: middle },
            TCP4 => Message::Tcp4,
            TCP6 => Message::Tcp6,
            _ => Message::Udp,
        };
        Work::Cut(Cut { message, size: high, start: middle, header: (low >> 4) * 4, ecn: self.0 & ECN != 0 })
    }

    /// Returns what a receiver of the frame must be able to do. Who cuts also finishes checksums.
    #[inline]
    pub fn needs(self) -> Offloads {
        let message = match self.work() {
            Work::Nothing => return Offloads::NONE,
            Work::Checksum { .. } => return Offloads::CHECKSUM,
            Work::Cut(Cut { message: Message::Tcp4, .. }) => Offloads::TCP4,
            Work::Cut(Cut { message: Message::Tcp6, .. }) => Offloads::TCP6,
            Work::Cut(Cut { message: Message::Udp, .. }) => Offloads::UDP,
        };
        let ecn = if self.0 & ECN != 0 { Offloads::ECN } else { Offloads::NONE };
        Offloads::CHECKSUM | message | ecn
    }

    /// Returns the description of the same frame after `by` bytes were put in front of the transport header, or removed if that
    /// is negative. `None` if they cannot have been.
    #[must_use]
    pub fn moved(self, by: i32) -> Option<Offload> {
        match self.work() {
            Work::Nothing => Some(self),
            Work::Checksum { start, offset } => {
                Some(Offload::checksum(u16::try_from(i32::from(start) + by).ok()?, offset))
            }
            Work::Cut(cut) => Offload::cut(Cut { start: u8::try_from(i32::from(cut.start) + by).ok()?, ..cut }),
        }
    }
}

impl std::fmt::Debug for Offload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.work().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUT: Cut = Cut { message: Message::Tcp4, size: 1448, start: 34, header: 32, ecn: false };

    #[test]
    fn a_description_tells_what_it_was_made_of() {
        assert_eq!(Offload::NONE.work(), Work::Nothing);
        let checksum = Work::Checksum { start: 65_535, offset: 255 };
        assert_eq!(Offload::checksum(65_535, 255).work(), checksum);
        for message in [Message::Tcp4, Message::Tcp6] {
            for (header, ecn) in [(20, false), (60, true)] {
                let cut = Cut { message, size: u16::MAX, start: 255, header, ecn };
                assert_eq!(Offload::cut(cut).unwrap().work(), Work::Cut(cut));
            }
        }
        let udp = Cut { message: Message::Udp, header: 8, ..CUT };
        assert_eq!(Offload::cut(udp).unwrap().work(), Work::Cut(udp));
    }

    #[test]
    fn impossible_cuts_are_refused() {
        for cut in [
            Cut { size: MIN_SEGMENT - 1, ..CUT },
            Cut { header: 16, ..CUT },
            Cut { header: 64, ..CUT },
            Cut { header: 22, ..CUT },
            Cut { message: Message::Udp, ..CUT },
            Cut { message: Message::Udp, header: 8, ecn: true, ..CUT },
        ] {
            assert_eq!(Offload::cut(cut), None, "{cut:?}");
        }
    }

    #[test]
    fn a_receiver_needs_all_that_the_frame_does() {
        let needs = |cut| Offload::cut(cut).unwrap().needs();
        assert_eq!(Offload::NONE.needs(), Offloads::NONE);
        assert_eq!(Offload::checksum(34, 16).needs(), Offloads::CHECKSUM);
        assert_eq!(needs(CUT), Offloads::CHECKSUM | Offloads::TCP4);
        let ecn = needs(Cut { message: Message::Tcp6, ecn: true, ..CUT });
        assert_eq!(ecn, Offloads::CHECKSUM | Offloads::TCP6 | Offloads::ECN);
        assert!(Offloads::ALL.has(ecn) && !(Offloads::CHECKSUM | Offloads::TCP6).has(ecn));
        assert_eq!(format!("{ecn:?}"), r#"{"checksum", "tcp6", "ecn"}"#);
    }

    #[test]
    fn headers_in_front_move_a_description() {
        let cut = Offload::cut(CUT).unwrap();
        assert_eq!(cut.moved(4).unwrap().work(), Work::Cut(Cut { start: 38, ..CUT }));
        assert_eq!(cut.moved(4).unwrap().moved(-4), Some(cut));
        assert_eq!(cut.moved(300), None);
        assert_eq!(Offload::checksum(34, 6).moved(-4), Some(Offload::checksum(30, 6)));
        assert_eq!(Offload::checksum(34, 6).moved(-35), None);
        assert_eq!(Offload::NONE.moved(-35), Some(Offload::NONE));
    }
}
