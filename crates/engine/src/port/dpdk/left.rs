//! Work that frames leave to the device: which it does, and its description for the device.

use ::dpdk::{Abilities, Work as Told};
use packet::offload::{Cut, Layers, Offload, Offloads, Work};
use packet::{Frame, Frames, HEAD};

/// Shortest segments that are left to a device, in bytes of payload: several drivers refuse shorter ones.
const SHORTEST: u16 = 256;

/// Why a device does no more than it does.
pub(super) const DEVICE: &str = "the device does no more";

/// Returns the work that a device does.
pub(super) fn offloads(abilities: Abilities) -> Offloads {
    let Abilities { checksum, tcp4, tcp6 } = abilities;
    let all = [(checksum, Offloads::CHECKSUM), (tcp4, Offloads::TCP4), (tcp6, Offloads::TCP6)];
    let there = all.into_iter().filter(|(is_there, _)| *is_there);
    there.fold(Offloads::NONE, |offloads, (_, kind)| offloads | kind)
}

/// Returns what a device has to be able to do for this work.
pub(super) fn abilities(offloads: Offloads) -> Abilities {
    Abilities {
        checksum: offloads.has(Offloads::CHECKSUM),
        tcp4: offloads.has(Offloads::TCP4),
        tcp6: offloads.has(Offloads::TCP6),
    }
}

/// Limits of messages that a device cuts.
#[derive(Clone, Copy)]
pub(super) struct Messages {
    /// Maximum length of a message, as its pieces are chunks.
    pub(super) longest: u32,
    /// Maximum length of a segment.
    pub(super) segment: u32,
}

/// Reports whether a device does the work of this frame: it has to know the headers, and to take such a message.
pub(super) fn takes(frames: &Frames<'_>, frame: &Frame<'_>, messages: Messages) -> bool {
    let offload = frame.offload();
    if let Work::Cut(cut) = offload.work()
        && !fits(frame.len(), cut, messages)
    {
        return false;
    }
    let mut head = [0; HEAD];
    let filled = frames.copy_to(frame, &mut head);
    Layers::of(&head[..filled], frame.len(), offload).is_some()
}

fn fits(len: u32, cut: Cut, messages: Messages) -> bool {
    let (headers, size) = (u32::from(cut.start) + u32::from(cut.header), u32::from(cut.size));
    cut.size >= SHORTEST
        && headers <= HEAD as u32
        && headers + size <= messages.segment
        && (headers + size + 1..=messages.longest).contains(&len)
}

/// Returns the description of the work on a frame of `len` bytes, whose first bytes are `head`, for the device. `None` if the frame is
/// another one by now.
pub(super) fn told(head: &[u8], len: u32, offload: Offload) -> Option<Told> {
    let Layers { link, network, transport, is_v6, is_udp } = Layers::of(head, len, offload)?;
    let segment = if let Work::Cut(cut) = offload.work() { cut.size } else { 0 };
    Some(Told { link, network, transport, segment, is_v6, is_udp })
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::offload::Message;

    const MESSAGES: Messages = Messages { longest: 40_000, segment: 1522 };
    const CUT: Cut = Cut { message: Message::Tcp4, size: 1000, start: 34, header: 32, ecn: false };

    #[test]
    fn a_device_does_what_it_says() {
        for work in [Offloads::NONE, Offloads::CHECKSUM, Offloads::CHECKSUM | Offloads::TCP4 | Offloads::TCP6] {
            assert_eq!(offloads(abilities(work)), work);
        }
        let all = offloads(abilities(Offloads::ALL));
        assert_eq!(all, !(Offloads::ECN | Offloads::UDP));
    }

    #[test]
    fn limits_of_messages_are_kept() {
        let does = |len, cut| fits(len, cut, MESSAGES);
        assert!(does(40_000, CUT) && !does(40_001, CUT));
        assert!(does(1067, CUT) && !does(1066, CUT));
        assert!(does(3000, Cut { size: 256, ..CUT }) && !does(3000, Cut { size: 255, ..CUT }));
        assert!(does(3000, Cut { size: 1456, ..CUT }) && !does(3000, Cut { size: 1457, ..CUT }));
        assert!(does(3000, Cut { start: 68, header: 60, ..CUT }) && !does(3000, Cut { start: 72, header: 60, ..CUT }));
    }
}
