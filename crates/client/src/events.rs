//! The events of a switch, as they happen.

use crate::ClientError;
use crate::lines::Lines;
use api::event::Event;
use api::request::EVENT;
use std::io;
use std::time::{Duration, Instant};

/// The events of a switch, from [`Client::follow`](crate::Client::follow). As an iterator it waits for each event, and ends after an
/// error: the switch has ended, or the connection broke.
///
/// Who does not read loses events, and gets [`EventKind::Lost`](api::event::EventKind::Lost) with their number.
#[derive(Debug)]
pub struct Events {
    lines: Lines,
    seq: u64,
    has_failed: bool,
}

impl Events {
    pub(crate) fn new(lines: Lines, seq: u64) -> Result<Events, ClientError> {
        lines.limit(None)?;
        Ok(Events { lines, seq, has_failed: false })
    }

    /// Returns the number of the last event: after a new connection, [`EventsFollow`](api::request::EventsFollow) goes on after it.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns the next event, or `None` if there is none in this time.
    ///
    /// # Errors
    ///
    /// The connection broke, or the switch sent something else.
    pub fn next_within(&mut self, time: Duration) -> Result<Option<Event>, ClientError> {
        let end = Instant::now() + time;
        let next = loop {
            let left = end.saturating_duration_since(Instant::now());
            // Zero would be no limit.
            self.lines.limit(Some(left.max(Duration::from_millis(1))))?;
            match self.receive() {
                Err(ClientError::Io(error)) if is_timeout(&error) && !left.is_zero() => {}
                Err(ClientError::Io(error)) if is_timeout(&error) => break None,
                other => break Some(other?),
            }
        };
        self.lines.limit(None)?;
        Ok(next)
    }

    fn receive(&mut self) -> Result<Event, ClientError> {
        let mut message = self.lines.next()?;
        if message["method"] != EVENT {
            return Err(ClientError::Unintelligible(format!("not a notification `{EVENT}`: {message}")));
        }
        let event: Event = serde_json::from_value(message["params"].take())
            .map_err(|error| ClientError::Unintelligible(error.to_string()))?;
        self.seq = event.seq;
        Ok(event)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

impl Iterator for Events {
    type Item = Result<Event, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let next = self.receive();
        self.has_failed = next.is_err();
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::event::EventKind;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn an_event_that_comes_in_pieces_is_not_lost_by_a_wait_that_ends_between() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut events = Events::new(Lines::new(ours), 4).unwrap();
        theirs.write_all(br#"{"jsonrpc": "2.0", "method": "event", "params": {"seq": 5, "#).unwrap();
        assert!(events.next_within(Duration::from_millis(5)).unwrap().is_none() && events.seq() == 4);
        theirs.write_all(b"\"time\": 1.5, \"event\": \"guest-connected\", \"port\": \"a\"}}\n").unwrap();
        let event = events.next_within(LONG).unwrap().unwrap();
        assert_eq!((event.seq, event.kind), (5, EventKind::GuestConnected { port: "a".into() }));
        assert_eq!(events.seq(), 5);
        theirs.write_all(b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"result\": 1}\n").unwrap();
        assert!(matches!(events.next(), Some(Err(ClientError::Unintelligible(_)))) && events.next().is_none());
    }

    #[test]
    fn the_end_of_the_switch_is_an_error() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let error = Events::new(Lines::new(ours), 4).unwrap().next_within(LONG).unwrap_err();
        assert!(error.to_string().contains("closed the connection"), "{error}");
    }
}
