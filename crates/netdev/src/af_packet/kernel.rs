//! Abilities of the kernel that it does not tell.

use std::sync::LazyLock;

/// The first release in which packet sockets know messages of UDP (`VIRTIO_NET_HDR_GSO_UDP_L4`).
const CUTS_UDP: (u32, u32) = (6, 2);

/// Reports whether packet sockets take messages of UDP that are to be cut. An older kernel refuses such a frame.
pub(super) fn cuts_udp() -> bool {
    static CUTS: LazyLock<bool> = LazyLock::new(|| {
        let name = rustix::system::uname();
        release(&name.release().to_string_lossy()).is_some_and(|release| release >= CUTS_UDP)
    });
    *CUTS
}

/// Returns the first two numbers of a release.
fn release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        assert_eq!(release("6.1.0-56-amd64"), Some((6, 1)));
        assert!(release("6.18.3+").unwrap() > CUTS_UDP && release("10.0-rc1").unwrap() > CUTS_UDP);
        assert_eq!([release("6"), release("next"), release("")], [None; 3]);
    }
}
