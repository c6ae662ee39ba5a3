//! Packets that controllers send: the control side applies their actions, so that workers only have to send.

use openflow::ofp::port;
use openflow::rewrite::Headers;
use openflow::{Action, HEADER_BYTES, To};

/// A packet as it leaves, and its output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Emission {
    /// Number of the port that it counts as received from, or another number.
    pub(in crate::forward) in_port: u32,
    /// `None` to go through the flow table.
    pub(in crate::forward) to: Option<To>,
    pub(in crate::forward) packet: Vec<u8>,
}

impl Emission {
    /// Applies a list of actions to a packet, one after the other, and returns its outputs. There are none once its time to live is
    /// over.
    pub(crate) fn all(in_port: u32, actions: &[Action], data: &[u8]) -> impl Iterator<Item = Emission> {
        let mut headers = Headers::new(&data[..data.len().min(HEADER_BYTES)], 0);
        let mut lives = true;
        actions.iter().filter_map(move |action| {
            let to = To::of(action);
            let to_table = matches!(action, Action::Output { port: port::TABLE, .. });
            if to.is_none() && !to_table {
                lives &= headers.apply(action);
                return None;
            }
            lives.then(|| {
                let packet = [headers.bytes(), &data[headers.taken()..]].concat();
                Emission { in_port, to, packet }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_output_gets_the_packet_as_it_is_by_then() {
        let data: Vec<u8> = (0..200).collect();
        let output = |port| Action::Output { port, max_len: 0 };
        let actions = [output(2), Action::PushVlan(0x8100), output(port::TABLE), Action::PopVlan, output(port::FLOOD)];
        let emissions: Vec<_> = Emission::all(9, &actions, &data).collect();
        assert_eq!(emissions.iter().map(|e| e.to).collect::<Vec<_>>(), [Some(To::Port(2)), None, Some(To::Flood)]);
        assert!(emissions[0].packet == data && emissions[2].packet == data);
        let tagged = [&data[..12], &[0x81, 0, 0, 0], &data[12..]].concat();
        assert_eq!(emissions[1].packet, tagged);
    }
}
