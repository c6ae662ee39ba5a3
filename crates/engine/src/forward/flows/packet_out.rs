//! Packets that controllers send: the control side applies their actions, so that workers only have to send.

use openflow::ofp::port;
use openflow::rewrite::Headers;
use openflow::{Action, To, Undone};

/// A packet as it leaves, and its output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Emission {
    /// Number of the port that it counts as received from, or another number.
    pub(in crate::forward) in_port: u32,
    pub(in crate::forward) way: Way,
    pub(in crate::forward) packet: Vec<u8>,
}

/// Destination of such a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::forward) enum Way {
    /// Through the flow tables.
    Table,
    To(To),
    /// It is dropped, as an action can't be done.
    Nowhere(Undone),
}

impl Emission {
    /// Applies a list of actions to a packet, one after the other, and returns its outputs. There are none after an action that can't be
    /// done.
    pub(crate) fn all(in_port: u32, actions: &[Action], data: &[u8]) -> Vec<Emission> {
        let mut headers = Headers::new(data, data.len(), 0);
        let more = |at: usize, into: &mut [u8]| into.copy_from_slice(&data[at..at + into.len()]);
        let mut emissions = Vec::new();
        for action in actions {
            let way = match To::of(action) {
                Some(to) => Way::To(to),
                None if matches!(action, Action::Output { port: port::TABLE, .. }) => Way::Table,
                None => match headers.apply(action, more) {
                    Ok(()) => continue,
                    Err(undone) => Way::Nowhere(undone),
                },
            };
            emissions.push(Emission { in_port, way, packet: [headers.bytes(), &data[headers.taken()..]].concat() });
            if let Way::Nowhere(_) = way {
                break;
            }
        }
        emissions
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
        let emissions = Emission::all(9, &actions, &data);
        let ways = [Way::To(To::Port(2)), Way::Table, Way::To(To::Flood)];
        assert_eq!(emissions.iter().map(|emission| emission.way).collect::<Vec<_>>(), ways);
        assert!(emissions[0].packet == data && emissions[2].packet == data);
        let tagged = [&data[..12], &[0x81, 0, 0, 0], &data[12..]].concat();
        assert_eq!(emissions[1].packet, tagged);
    }
}
