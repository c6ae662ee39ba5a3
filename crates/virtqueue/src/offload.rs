//! Offloads as virtio features (virtio 1.2 §5.1.3), which each side negotiates for what it sends.

use crate::config::{Negotiated, features as ring};
use packet::offload::Offloads;

/// A kind of work: the feature by which a driver leaves it to the device, and that by which a device leaves it to the driver.
struct Kind {
    work: Offloads,
    host: u64,
    guest: u64,
}

/// All kinds; UDP of either version of IP is one on the driver's side, and two on the device's.
const KINDS: [Kind; 5] = [
    Kind { work: Offloads::CHECKSUM, host: 1, guest: 1 << 1 },
    Kind { work: Offloads::TCP4, host: 1 << 11, guest: 1 << 7 },
    Kind { work: Offloads::TCP6, host: 1 << 12, guest: 1 << 8 },
    Kind { work: Offloads::ECN, host: 1 << 13, guest: 1 << 9 },
    Kind { work: Offloads::UDP, host: 1 << 56, guest: 1 << 54 | 1 << 55 },
];

/// Returns the features by which a device takes and leaves this work.
pub fn features(work: Offloads) -> u64 {
    KINDS.iter().filter(|kind| work.has(kind.work)).fold(0, |all, kind| all | kind.host | kind.guest)
}

/// Returns the work that the driver may leave to the device.
pub fn of_driver(negotiated: Negotiated) -> Offloads {
    collect(|kind| negotiated.has(kind.host))
}

/// Returns the work that the device may leave to the driver.
pub fn of_device(negotiated: Negotiated) -> Offloads {
    collect(|kind| negotiated.has(kind.guest))
}

/// Returns `accepted` features without those offloads that a driver must not accept with the others (§5.1.3.1), or that only one side would
/// leave to the other: users see one set. Messages need mergeable buffers, as no buffer is as long (§5.1.6.3.1).
pub fn settled(accepted: u64) -> u64 {
    let known = Negotiated(accepted);
    let mut work = of_driver(known) & of_device(known);
    if !known.has(ring::MRG_RXBUF) {
        work = work & Offloads::CHECKSUM;
    }
    if (work & (Offloads::TCP4 | Offloads::TCP6)).is_none() {
        work = work & !Offloads::ECN;
    }
    accepted & !features(Offloads::ALL) | features(work)
}

/// Returns the work of these kinds: none without checksums, which every cut needs (§5.1.3.1).
fn collect(is_in: impl Fn(&Kind) -> bool) -> Offloads {
    let all = KINDS.iter().filter(|kind| is_in(kind)).fold(Offloads::NONE, |all, kind| all | kind.work);
    if all.has(Offloads::CHECKSUM) { all } else { Offloads::NONE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_negotiate_for_themselves() {
        let all = features(Offloads::ALL);
        assert_eq!(all, 0x01c0_0000_0000_3b83, "no UFO, whose bits are 10 and 14");
        assert_eq!(of_driver(Negotiated(all)), Offloads::ALL);
        assert_eq!(of_device(Negotiated(all)), Offloads::ALL);
        let checksum = features(Offloads::CHECKSUM);
        assert_eq!(checksum, 3);
        let driver_only = Negotiated(1 | 1 << 11);
        assert_eq!(of_driver(driver_only), Offloads::CHECKSUM | Offloads::TCP4);
        assert_eq!(of_device(driver_only), Offloads::NONE);
        assert_eq!(of_device(Negotiated(1 << 7)), Offloads::NONE, "a cut includes a checksum");
        assert_eq!(of_device(Negotiated(1 << 1 | 1 << 54)), Offloads::CHECKSUM, "both versions of IP, or none");
    }

    #[test]
    fn a_driver_accepts_what_goes_together() {
        use ring::{MRG_RXBUF, VERSION_1};
        let all = features(Offloads::ALL);
        let others = MRG_RXBUF | VERSION_1;
        let settles = |offered: u64| {
            let settled = settled(offered);
            assert_eq!((settled & !all, settled & !offered), (offered & !all, 0));
            let known = Negotiated(settled);
            assert_eq!(of_driver(known), of_device(known));
            assert_eq!(settled & all, features(of_driver(known)), "no bit without those that it needs");
            of_driver(known)
        };
        let (checksum, tcp4) = (Offloads::CHECKSUM, Offloads::CHECKSUM | Offloads::TCP4);
        for (offered, work) in [
            (others | all, Offloads::ALL),
            (VERSION_1 | all, checksum),
            (others, Offloads::NONE),
            (others | features(tcp4), tcp4),
            (others | features(checksum | Offloads::ECN), checksum),
            // Open vSwitch without segmentation, and with it: DPDK's features without CSUM, or without HOST_ECN and USO.
            (others | all & !1, Offloads::NONE),
            (others | all & !(1 << 13) & !(7 << 54), tcp4 | Offloads::TCP6),
            // One side, or one version of IP.
            (others | all & !(1 << 1), Offloads::NONE),
            (others | all & !(1 << 7), !Offloads::TCP4),
            (others | all & !(1 << 55), !Offloads::UDP),
        ] {
            assert_eq!(settles(offered), work, "{offered:#x}");
        }
    }
}
