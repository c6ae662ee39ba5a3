//! The state of a port that users see, and what those who follow the events know of it.

use crate::events::Events;
use crate::stats::{InterfaceStats, OffloadStats};
use api::event::EventKind;
use std::sync::Arc;

/// Events about a port between two calls of [`Told::renew`].
const AT_ONCE: u32 = 8;

/// Reported state of a port. Its detail is empty until it is set.
#[derive(Clone, Default)]
pub(super) struct PortState {
    pub(super) up: bool,
    /// Whether a guest is connected.
    pub(super) guest: bool,
    /// Reason for which the last guest left.
    pub(super) guest_left: String,
    /// Whether peers can connect to its socket, or one is connected.
    pub(super) open: bool,
    pub(super) detail: String,
    /// The socket that others have removed, if they have; frames of the present peer do not need it.
    pub(super) missing: Option<String>,
    pub(super) interface: Option<InterfaceStats>,
    pub(super) offloads: Option<OffloadStats>,
}

impl PortState {
    /// Returns the state in one line of text.
    pub(super) fn shown(&self) -> String {
        let missing = self.missing.as_deref();
        [self.detail.as_str()].into_iter().chain(missing).collect::<Vec<_>>().join("; ")
    }

    /// Returns why the port is down.
    fn why_down(&self) -> String {
        if self.guest { format!("its guest's queues do not run ({})", self.detail) } else { self.detail.clone() }
    }
}

/// The state of a port as the log of events has it. A change is logged at once, unless the port changes all the time: then its present
/// state is logged at intervals. So a guest cannot push others' events out of the log.
pub(super) struct Told {
    events: Arc<Events>,
    /// Whether the port is up; `None` if nothing was told of it yet.
    up: Option<bool>,
    /// Whether it has a guest.
    guest: bool,
    /// Events that may be told before the next renewal.
    left: u32,
}

impl Told {
    pub(super) fn new(events: Arc<Events>) -> Told {
        Told { events, up: None, guest: false, left: AT_ONCE }
    }

    /// Allows further events, and tells what was held back.
    pub(super) fn renew(&mut self, port: &str, now: &PortState) {
        self.left = AT_ONCE;
        self.tell(port, now);
    }

    /// Tells how the state of the port differs from what followers know.
    pub(super) fn tell(&mut self, port: &str, now: &PortState) {
        if now.detail.is_empty() || self.left == 0 {
            return;
        }
        let port = || port.to_owned();
        if now.guest && !self.guest {
            self.say(EventKind::GuestConnected { port: port() });
        }
        if self.up != Some(now.up) {
            self.up = Some(now.up);
            self.say(match now.up {
                true => EventKind::PortUp { port: port() },
                false => EventKind::PortDown { port: port(), reason: now.why_down() },
            });
        }
        if !now.guest && self.guest {
            self.say(EventKind::GuestDisconnected { port: port(), reason: now.guest_left.clone() });
        }
        self.guest = now.guest;
    }

    fn say(&mut self, kind: EventKind) {
        self.left = self.left.saturating_sub(1);
        self.events.tell(kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the events that were told, by the beginning of their names.
    fn names(events: &Events) -> Vec<String> {
        let name = |kind: &EventKind| format!("{kind:?}").split(' ').next().unwrap().to_owned();
        events.list(None, None).iter().map(|event| name(&event.kind)).collect()
    }

    fn state(up: bool, guest: bool) -> PortState {
        PortState { up, guest, detail: "as it is".into(), guest_left: "it left".into(), ..PortState::default() }
    }

    #[test]
    fn each_change_is_told_once() {
        let events = Arc::new(Events::new());
        let mut told = Told::new(events.clone());
        told.tell("a", &PortState::default());
        assert!(names(&events).is_empty(), "nothing is known of it");
        for now in
            [(false, false), (false, false), (false, true), (true, true), (true, true), (false, true), (false, false)]
        {
            told.tell("a", &state(now.0, now.1));
        }
        assert_eq!(names(&events), ["PortDown", "GuestConnected", "PortUp", "PortDown", "GuestDisconnected"]);
        let events = events.list(None, None);
        let reason = "its guest's queues do not run (as it is)".into();
        assert_eq!(events[3].kind, EventKind::PortDown { port: "a".into(), reason });
        assert_eq!(events[4].kind, EventKind::GuestDisconnected { port: "a".into(), reason: "it left".into() });
    }

    #[test]
    fn a_port_that_changes_all_the_time_is_told_of_at_intervals() {
        let events = Arc::new(Events::new());
        let mut told = Told::new(events.clone());
        (0..1001).for_each(|round| told.tell("a", &state(round % 2 == 0, true)));
        let first = names(&events).len();
        assert!((AT_ONCE as usize..=AT_ONCE as usize + 1).contains(&first), "{first}");
        told.renew("a", &state(true, true));
        told.renew("a", &state(true, true));
        assert_eq!(names(&events).last().unwrap(), "PortUp", "the state that it has in the end");
        assert!(names(&events).len() <= first + 1);
    }
}
