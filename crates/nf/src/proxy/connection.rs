//! One connection: bytes pass between a TCP socket of the stack and a local socket.

use super::local::{Moved, Stream};
use super::watch::EventFlags;
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{RecvError, Socket, State};

/// State of a connection after its bytes were moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It continues.
    Open,
    /// Both sides ended it, and nothing is left to move.
    Ended,
    /// The local side is gone, though the network's is not.
    LocalGone,
    /// The network's side was reset.
    NetworkReset,
    /// The network's side does not answer.
    NetworkSilent,
}

/// A connection with both of its sides.
pub(super) struct Connection {
    pub(super) handle: SocketHandle,
    pub(super) local: Stream,
    /// Whether reading may give something, and writing may take something.
    readable: bool,
    writable: bool,
    /// Whether the local side has ended its stream.
    local_ended: bool,
    /// Whether the network's side has ended its stream, and whether the local side knows.
    network_ended: bool,
    told: bool,
    /// Bytes for the local side that outlive the TCP socket.
    rest: Vec<u8>,
}

/// Bytes moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bytes {
    pub(super) from_network: u64,
    pub(super) to_network: u64,
}

impl Connection {
    /// Joins the two sides. `connects` if the local one does not have its service yet.
    pub(super) fn new(handle: SocketHandle, local: Stream, connects: bool) -> Connection {
        Connection {
            handle,
            local,
            readable: !connects,
            writable: !connects,
            local_ended: false,
            network_ended: false,
            told: false,
            rest: Vec::new(),
        }
    }

    /// Notes an event of the local socket.
    pub(super) fn note(&mut self, event: EventFlags) {
        let gone = EventFlags::HUP | EventFlags::ERR;
        self.readable |= event.intersects(EventFlags::IN | EventFlags::RDHUP | gone);
        self.writable |= event.intersects(EventFlags::OUT | gone);
    }

    /// Moves as many bytes as both sides take, both ways.
    pub(super) fn pump(&mut self, socket: &mut Socket<'_>, moved: &mut Bytes) -> Standing {
        self.network_ended |=
            matches!(socket.state(), State::CloseWait | State::Closing | State::LastAck | State::TimeWait);
        if self.move_in(socket, &mut moved.from_network).is_none()
            || self.move_out(socket, &mut moved.to_network).is_none()
        {
            return Standing::LocalGone;
        }
        let is_empty = socket.recv_queue() == 0 && self.rest.is_empty();
        if self.network_ended && is_empty && !self.told {
            self.local.finish();
            self.told = true;
        }
        match socket.state() {
            State::TimeWait | State::Closed if self.both_ended() && !self.told => Standing::Open,
            State::TimeWait | State::Closed if self.both_ended() && socket.send_queue() == 0 => Standing::Ended,
            // A reset takes a request that was not accepted yet back to the beginning.
            State::Closed | State::Listen => Standing::NetworkReset,
            _ => Standing::Open,
        }
    }

    /// Reports whether the stack has given up the peer. Right after it has sent all due segments, nothing else closes a
    /// socket.
    pub(super) fn was_given_up(&self, socket: &Socket<'_>) -> bool {
        // Bytes from the network still go to the local side; bytes that the peer did not acknowledge are lost.
        let ended_regularly = self.both_ended() && (!self.told || socket.send_queue() == 0);
        socket.state() == State::Closed && !ended_regularly
    }

    fn both_ended(&self) -> bool {
        self.local_ended && self.network_ended
    }

    /// Moves bytes from the network; `None` if the local side is gone.
    fn move_in(&mut self, socket: &mut Socket<'_>, moved: &mut u64) -> Option<()> {
        while self.writable && (!self.rest.is_empty() || socket.can_recv()) {
            let local = &self.local;
            let outcome = if self.rest.is_empty() {
                let write = |bytes: &mut [u8]| match local.write(bytes) {
                    Moved::Bytes(count) => (count, Moved::Bytes(count)),
                    other => (0, other),
                };
                match socket.recv(write) {
                    Ok(outcome) => outcome,
                    Err(RecvError::Finished | RecvError::InvalidState) => break,
                }
            } else {
                let outcome = local.write(&self.rest);
                if let Moved::Bytes(count) = outcome {
                    self.rest.drain(..count);
                }
                outcome
            };
            match outcome {
                Moved::Bytes(count) => *moved += count as u64,
                Moved::Later => self.writable = false,
                Moved::End | Moved::Reset => return None,
            }
        }
        // The stack forgets received bytes when TIME-WAIT ends, and the local side may take longer.
        while socket.state() == State::TimeWait && socket.can_recv() {
            let keep = |bytes: &mut [u8]| (bytes.len(), self.rest.extend_from_slice(bytes));
            if socket.recv(keep).is_err() {
                break;
            }
        }
        Some(())
    }

    /// Moves bytes to the network; `None` if the local side is gone.
    fn move_out(&mut self, socket: &mut Socket<'_>, moved: &mut u64) -> Option<()> {
        while self.readable && !self.local_ended && socket.can_send() {
            let local = &self.local;
            let read = |room: &mut [u8]| match local.read(room) {
                Moved::Bytes(count) => (count, Moved::Bytes(count)),
                other => (0, other),
            };
            match socket.send(read).unwrap_or(Moved::Later) {
                Moved::Bytes(count) => *moved += count as u64,
                Moved::Later => self.readable = false,
                Moved::Reset => return None,
                Moved::End => {
                    self.local_ended = true;
                    socket.close();
                }
            }
        }
        Some(())
    }
}
