//! A controller's bytes, in and out: requests are handled as they become whole, answers are taken piece by piece.

use super::connection::{Connection, first_len};
use super::switch::{Closed, ConnectionId, Switch};
use crate::time::Millis;
use crate::wire::ofp::{HEADER_LEN, message};
use crate::wire::{Error, Message};

impl Switch {
    /// Takes bytes that a controller sent, at time `now`. On an error, send the rest of the output and close.
    ///
    /// If a barrier follows an event, everything behind the barrier stays in the input: handle the events, and call this again while
    /// [`Self::is_left`].
    pub fn receive(&mut self, id: ConnectionId, bytes: &[u8], now: Millis) -> Result<(), Closed> {
        let connection = self.connections.get_mut(&id).ok_or(Closed::Unknown)?;
        let mut input = std::mem::take(&mut connection.input);
        input.extend_from_slice(bytes);
        let mut done = 0;
        loop {
            let rest = &input[done..];
            let connection = self.connections.get_mut(&id).ok_or(Closed::Unknown)?;
            if connection.is_blocked() {
                break;
            }
            let len = match first_len(rest) {
                Ok(len) => len.filter(|len| *len <= rest.len()),
                Err(()) => {
                    connection.send_error(0, Error::BadLen, &rest[..rest.len().min(HEADER_LEN)]);
                    return Err(Closed::Framing);
                }
            };
            let Some(request) = len.and_then(|len| Message::parse(&rest[..len])) else { break };
            done += request.bytes.len();
            if !connection.negotiated {
                connection.negotiate(&request).map_err(|_| Closed::Version)?;
            } else if let Err(error) = self.handle(id, &request, now)
                && let Some(connection) = self.connections.get_mut(&id)
            {
                connection.fail(&request, error);
            }
            if request.kind == message::BARRIER_REQUEST && !self.events.is_empty() {
                break;
            }
        }
        input.drain(..done);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.input = input;
        }
        Ok(())
    }

    /// Reports whether the input holds a whole message that can be handled now.
    pub fn is_left(&self, id: ConnectionId) -> bool {
        let Some(connection) = self.connections.get(&id).filter(|connection| !connection.is_blocked()) else {
            return false;
        };
        let input = &connection.input;
        // A wrong length must be handled, too.
        first_len(input).map_or(true, |len| len.is_some_and(|len| len <= input.len()))
    }

    /// Reports whether there is more to send to a controller or to handle without new bytes from it.
    pub fn is_busy(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(Connection::is_blocked) || self.is_left(id)
    }

    /// Reports whether there is output for a controller.
    pub fn has_output(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| !connection.output.is_empty() || connection.answer.is_some())
    }

    /// Returns the output for a controller, after adding the next piece of a long answer. The caller removes what it has sent
    /// from the front.
    pub fn output(&mut self, id: ConnectionId) -> Option<&mut Vec<u8>> {
        let connection = self.connections.get_mut(&id)?;
        let has_room = connection.has_room();
        if let Some(answer) = connection.answer.as_mut().filter(|_| has_room)
            && !answer.write(&self.tables, &mut connection.output)
        {
            connection.answer = None;
        }
        Some(&mut connection.output)
    }
}
