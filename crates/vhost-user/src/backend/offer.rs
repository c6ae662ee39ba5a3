//! Features that a device offers. They are a contract: a guest that runs has accepted some, and needs them again when it connects to a
//! newer switch, or moves to another machine.

use super::{Exchange, NEWEST, Options};
use vhost::vhost_user::VhostUserProtocolFeatures as Protocol;
use virtqueue::features;

/// The virtio features of each version, the oldest first. A version never changes: one more feature makes a new version. The second one has
/// those of the first, and the offloads that the options name besides: the switch names some by default.
const VERSIONS: [u64; NEWEST as usize] = [FIRST, FIRST];

const FIRST: u64 = features::VERSION_1
    | features::MRG_RXBUF
    | features::INDIRECT_DESC
    | features::EVENT_IDX
    | features::RING_PACKED
    | features::IN_ORDER
    | features::PROTOCOL_FEATURES;

/// Returns the virtio features that a device with these options offers. MQ comes without the control queue that virtio requires with
/// it: the frontend provides that queue itself. No dirty log.
pub(super) fn features(options: &Options) -> u64 {
    let when = |feature, is_offered| if is_offered { feature } else { 0 };
    let all = VERSIONS[usize::from(options.offers.clamp(1, NEWEST)) - 1]
        | when(features::MQ, options.queue_pairs > 1)
        | when(features::MTU, options.mtu.is_some())
        | when(features::EXCHANGE, options.exchange.is_some())
        | virtqueue::offload::features(options.offloads);
    all & !options.withheld
}

/// Returns the features of the protocol. Nothing of a guest depends on them, so that versions have them in common.
pub(super) fn protocol_features(options: &Options) -> Protocol {
    let mut all = Protocol::MQ | Protocol::REPLY_ACK | Protocol::CONFIGURE_MEM_SLOTS | Protocol::RESET_DEVICE;
    all.set(Protocol::SHARED_OBJECT, options.exchange == Some(Exchange::Group));
    all.set(Protocol::MTU, options.mtu.is_some());
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;
    use packet::offload::Offloads;

    /// docs/guests.md promises these bits.
    #[test]
    fn what_a_version_offers_never_changes() {
        let options = Options { offers: 1, ..Options::new("s", Mode::Server, 1) };
        assert_eq!(features(&options), 0x0000_000d_7000_8000);
        let full = Options { queue_pairs: 2, mtu: Some(1500), ..options.clone() };
        assert_eq!(features(&full), 0x0000_000d_7040_8008);
        let mapped = Options { withheld: features::IN_ORDER, ..options.clone() };
        assert_eq!(features(&mapped), 0x0000_0005_7000_8000);
        assert_eq!((protocol_features(&options).bits(), protocol_features(&full).bits()), (0xa009, 0xa019));
        let second = Options { offers: 2, offloads: Offloads::ALL, ..options };
        assert_eq!(features(&second), 0x01c0_000d_7000_bb83);
        assert_eq!(second.offers, NEWEST, "a new version has its numbers here");
    }
}
