//! Offloads as virtio features (virtio 1.2 §5.1.3), which each side negotiates for what it sends.

use crate::config::Negotiated;
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
}
