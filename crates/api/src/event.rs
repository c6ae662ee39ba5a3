//! Events: what has happened to a switch, in order.

use crate::part::PartKind;
use crate::reload::ReloadAction;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An event, with its number and time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// Its number: one more than that of the event before. Those of a switch that was started again are greater. Events about
    /// addresses, and `lost`, have no number of their own, but that of the last event before them.
    pub seq: u64,
    /// Time, in seconds since the beginning of 1970 (UTC).
    pub time: f64,
    /// The kind of event, with its details.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// Kinds of events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum EventKind {
    /// The switch was started: its first event.
    Started {
        /// Its version.
        version: String,
    },
    /// Frames can pass a port.
    PortUp {
        /// Its name.
        port: String,
    },
    /// Frames cannot pass a port: it waits for its peer, could not be opened, or was up before.
    PortDown {
        /// Its name.
        port: String,
        /// The reason.
        reason: String,
    },
    /// A guest is connected to a port. The port is up once the guest has started its queues.
    GuestConnected {
        /// Name of the port.
        port: String,
    },
    /// The guest of a port has left, or was disconnected.
    GuestDisconnected {
        /// Name of the port.
        port: String,
        /// The reason.
        reason: String,
    },
    /// A queue of a mapping is new, or frames are received in another way.
    MappingChanged {
        /// The physical queue, as `port.queue`.
        from: String,
        /// The guest's queue, as `port.queue`.
        to: String,
        /// Whether frames are received into the guest's own buffers.
        zero_copy: bool,
        /// Reason if they are not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A queue of a mapping is gone.
    MappingRemoved {
        /// The physical queue, as `port.queue`.
        from: String,
        /// The guest's queue, as `port.queue`.
        to: String,
    },
    /// The configuration file was read again, and applied.
    Reloaded {
        /// The actions, without those that kept a part.
        actions: Vec<ReloadAction>,
    },
    /// The configuration file was read again, and nothing has changed.
    ReloadFailed {
        /// The reason.
        reason: String,
    },
    /// A call has added a part.
    PartAdded {
        /// Kind of the part.
        kind: PartKind,
        /// Its name.
        name: String,
        /// The actions, on this part and on others.
        actions: Vec<ReloadAction>,
    },
    /// A call has changed a part.
    PartChanged {
        /// Kind of the part.
        kind: PartKind,
        /// Its name.
        name: String,
        /// The actions, on this part and on others.
        actions: Vec<ReloadAction>,
    },
    /// A call has removed a part.
    PartRemoved {
        /// Kind of the part.
        kind: PartKind,
        /// Its name.
        name: String,
        /// The actions, on this part and on others.
        actions: Vec<ReloadAction>,
    },
    /// A worker makes no rounds: nothing that it serves moves.
    WorkerHung {
        /// Its number.
        worker: usize,
        /// Its position.
        place: String,
        /// Seconds since its last round.
        seconds: f64,
    },
    /// A worker that hung makes rounds again.
    WorkerRecovered {
        /// Its number.
        worker: usize,
        /// Seconds for which it made none.
        seconds: f64,
    },
    /// A bridge has learned an address.
    AddressLearned {
        /// Name of the bridge.
        bridge: String,
        /// The address, `aa:bb:cc:dd:ee:ff`.
        mac: String,
        /// VLAN it was learned in; 0 without VLANs.
        vlan: u16,
        /// Port that leads to it.
        port: String,
    },
    /// An address is now behind another port.
    AddressMoved {
        /// Name of the bridge.
        bridge: String,
        /// The address.
        mac: String,
        /// VLAN it was learned in; 0 without VLANs.
        vlan: u16,
        /// Port that led to it.
        from: String,
        /// Port that leads to it.
        port: String,
    },
    /// A bridge has forgotten an address.
    AddressForgotten {
        /// Name of the bridge.
        bridge: String,
        /// The address.
        mac: String,
        /// VLAN it was learned in; 0 without VLANs.
        vlan: u16,
        /// Port that led to it.
        port: String,
    },
    /// Events that this client did not get: it was too slow, or asked for some that are no longer kept.
    Lost {
        /// Number of these events.
        count: u64,
    },
    /// An event of a newer switch, which this version does not know.
    #[serde(other)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Unknown,
}

impl EventKind {
    /// Reports whether it is about an address that a bridge has learned: only those who ask for them get these.
    pub fn is_of_address(&self) -> bool {
        use EventKind::{AddressForgotten, AddressLearned, AddressMoved};
        matches!(self, AddressLearned { .. } | AddressMoved { .. } | AddressForgotten { .. })
    }

    /// Returns the actions that were taken.
    pub fn actions(&self) -> &[ReloadAction] {
        use EventKind::{PartAdded, PartChanged, PartRemoved, Reloaded};
        match self {
            Reloaded { actions }
            | PartAdded { actions, .. }
            | PartChanged { actions, .. }
            | PartRemoved { actions, .. } => actions,
            _ => &[],
        }
    }
}

/// One line of text.
impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventKind::Started { version } => write!(f, "the switch has started, version {version}"),
            EventKind::PortUp { port } => write!(f, "port {port} is up"),
            EventKind::PortDown { port, reason } => write!(f, "port {port} is down: {reason}"),
            EventKind::GuestConnected { port } => write!(f, "port {port}: a guest is connected"),
            EventKind::GuestDisconnected { port, reason } => write!(f, "port {port}: its guest has left: {reason}"),
            EventKind::MappingChanged { from, to, reason: None, .. } => write!(f, "mapping {from} to {to}: in place"),
            EventKind::MappingChanged { from, to, reason: Some(reason), .. } => {
                write!(f, "mapping {from} to {to}: copy: {reason}")
            }
            EventKind::MappingRemoved { from, to } => write!(f, "mapping {from} to {to} is gone"),
            EventKind::Reloaded { actions } if actions.is_empty() => f.write_str("reloaded: nothing changed"),
            EventKind::Reloaded { actions } => write!(f, "reloaded: {}", Joined(actions)),
            EventKind::ReloadFailed { reason } => write!(f, "not reloaded: {}", reason.replace('\n', "; ")),
            EventKind::PartAdded { kind, name, actions } => {
                write!(f, "a call added {kind} {name}: {}", Joined(actions))
            }
            EventKind::PartChanged { kind, name, actions } => {
                write!(f, "a call changed {kind} {name}: {}", Joined(actions))
            }
            EventKind::PartRemoved { kind, name, actions } => {
                write!(f, "a call removed {kind} {name}: {}", Joined(actions))
            }
            EventKind::WorkerHung { worker, place, seconds } => {
                write!(f, "worker {worker} hangs at {place}, for {seconds:.1} s")
            }
            EventKind::WorkerRecovered { worker, seconds } => write!(f, "worker {worker} goes on after {seconds:.1} s"),
            EventKind::AddressLearned { bridge, mac, vlan, port } => {
                write!(f, "bridge {bridge} learned {mac} (VLAN {vlan}) at port {port}")
            }
            EventKind::AddressMoved { bridge, mac, vlan, from, port } => {
                write!(f, "bridge {bridge}: {mac} (VLAN {vlan}) moved from port {from} to {port}")
            }
            EventKind::AddressForgotten { bridge, mac, vlan, port } => {
                write!(f, "bridge {bridge} forgot {mac} (VLAN {vlan}) at port {port}")
            }
            EventKind::Lost { count } => write!(f, "{count} events are lost"),
            EventKind::Unknown => f.write_str("an event that this version does not know"),
        }
    }
}

/// Actions in one line.
struct Joined<'a>(&'a [ReloadAction]);

impl fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let actions: Vec<_> = self.0.iter().map(ReloadAction::to_string).collect();
        f.write_str(&actions.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reload::{Step, Subject};
    use serde_json::{Value, json};

    /// Clients know events and their fields by these names: they stay.
    #[test]
    fn events_have_these_names() {
        let action = json!({"subject": "port", "name": "a", "step": "added", "why": []});
        let events = [
            json!({"event": "started", "version": "1"}),
            json!({"event": "port-up", "port": "a"}),
            json!({"event": "port-down", "port": "a", "reason": "no device"}),
            json!({"event": "guest-connected", "port": "a"}),
            json!({"event": "guest-disconnected", "port": "a", "reason": "it left"}),
            json!({"event": "mapping-changed", "from": "a.0", "to": "b.0", "zero_copy": true}),
            json!({"event": "mapping-changed", "from": "a.0", "to": "b.0", "zero_copy": false, "reason": "a is down"}),
            json!({"event": "mapping-removed", "from": "a.0", "to": "b.0"}),
            json!({"event": "reloaded", "actions": [action]}),
            json!({"event": "reload-failed", "reason": "line 3"}),
            json!({"event": "part-added", "kind": "port", "name": "a", "actions": [action]}),
            json!({"event": "part-changed", "kind": "bridge", "name": "a", "actions": []}),
            json!({"event": "part-removed", "kind": "patch", "name": "a+b", "actions": []}),
            json!({"event": "worker-hung", "worker": 1, "place": "asleep", "seconds": 2.5}),
            json!({"event": "worker-recovered", "worker": 1, "seconds": 3.5}),
            json!({"event": "address-learned", "bridge": "b", "mac": "02:00:00:00:00:01", "vlan": 0, "port": "a"}),
            json!({"event": "address-moved", "bridge": "b", "mac": "m", "vlan": 1, "from": "a", "port": "c"}),
            json!({"event": "address-forgotten", "bridge": "b", "mac": "m", "vlan": 1, "port": "c"}),
            json!({"event": "lost", "count": 7}),
        ];
        for mut event in events {
            let head = json!({"seq": 5, "time": 1.5});
            event.as_object_mut().unwrap().extend(head.as_object().unwrap().clone());
            let read: Event = serde_json::from_value(event.clone()).unwrap();
            assert!((read.seq, read.time) == (5, 1.5) && read.kind != EventKind::Unknown, "{event}");
            assert_eq!(serde_json::to_value(&read).unwrap(), event);
            assert_eq!(read.kind.to_string().lines().count(), 1);
        }
    }

    #[test]
    fn events_of_a_newer_switch_are_read() {
        let newer: Value = json!({"seq": 1, "time": 0.0, "event": "moon-rose", "phase": "full"});
        assert_eq!(serde_json::from_value::<Event>(newer).unwrap().kind, EventKind::Unknown);
        let more = json!({"seq": 1, "time": 0.0, "event": "guest-connected", "port": "a", "mood": "good"});
        assert_eq!(serde_json::from_value::<Event>(more).unwrap().kind, EventKind::GuestConnected { port: "a".into() });
    }

    #[test]
    fn actions_are_those_of_changes() {
        let action =
            ReloadAction { subject: Subject::Port, name: "a".into(), step: Step::Added, why: vec![], error: None };
        assert_eq!(EventKind::Reloaded { actions: vec![action] }.actions().len(), 1);
        assert!(EventKind::Lost { count: 1 }.actions().is_empty());
    }
}
