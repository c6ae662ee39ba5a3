//! Calls: a type for each method, whose fields are its parameters.

use crate::code::Code;
use crate::confinement::Confined;
use crate::event::Event;
use crate::flow;
use crate::part::Change;
use crate::port::PortSummary;
use crate::reload::ReloadReport;
use crate::stats::{ExchangeStats, MacEntry, MappingStats, PortState, Snapshot, WorkerStats};
use crate::why::PortWhy;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A call: a method with its parameters.
pub trait Request: Serialize + DeserializeOwned {
    /// Name of the method.
    const METHOD: &'static str;
    /// Its purpose, in a sentence.
    const ABOUT: &'static str;
    /// Reasons for which the switch may refuse it.
    const ERRORS: &'static [Code];
    /// The result.
    type Answer: Serialize + DeserializeOwned;
}

macro_rules! requests {
    ($(
        $(#[doc = $about:literal])+
        $method:literal = $name:ident {
            $($(#[doc = $doc:literal])+ $(#[serde($serde:ident)])? $field:ident: $type:ty,)*
        } -> $answer:ty $(, $($code:ident)|+)?;
    )*) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
            #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
            #[serde(deny_unknown_fields)]
            pub struct $name {
                $($(#[doc = $doc])+ $(#[serde($serde)])? pub $field: $type,)*
            }

            impl Request for $name {
                const METHOD: &'static str = $method;
                const ABOUT: &'static str = concat!($($about),+);
                const ERRORS: &'static [Code] = &[$($(Code::$code),+)?];
                type Answer = $answer;
            }
        )*
    };
}

requests! {
    /// Returns the ports, without their counters.
    "ports" = Ports {} -> Vec<PortSummary>;
    /// Returns all counters.
    "stats" = Stats {} -> Snapshot;
    /// Returns the workers: load, and time by step and stage.
    "workers" = Workers {} -> Vec<WorkerStats>;
    /// Returns the MAC tables of the bridges.
    "mac" = Mac {} -> Vec<MacEntry>;
    /// Returns dropped frames, by port, stage and reason.
    "drops" = Drops {} -> crate::Drops;
    /// Returns the mappings.
    "mappings" = Mappings {} -> Vec<MappingStats>;
    /// Returns the exchanges.
    "exchange" = Exchange {} -> Vec<ExchangeStats>;
    /// Explains how frames get from a port to its peers and back.
    "why" = Why {
        /// Name of the port.
        port: String,
    } -> PortWhy;
    /// Returns the counters and the table of aggregation.
    "aggregation" = Aggregation {} -> crate::Aggregation;
    /// Returns the flows that controllers have set.
    "flows" = Flows {} -> flow::Flows;
    /// Returns the rights that the switch has given up.
    "confinement" = Confinement {} -> Confined;
    /// Reads the configuration file again, and applies it.
    "reload" = Reload {} -> ReloadReport, Refused;
    /// Stops the switch.
    "shutdown" = Shutdown {} -> ();
    /// Returns the version of the switch.
    "version" = Version {} -> crate::Version;
    /// Adds a port. If it is there with the same settings, nothing changes.
    "port.add" = PortAdd {
        /// Keys of the section, as in the configuration file.
        keys: Map<String, Value>,
    } -> Change, OwnedByFile | Differs | Invalid | NotKept | NotApplied;
    /// Changes settings of a port.
    "port.set" = PortSet {
        /// Name of the port, which it keeps.
        name: String,
        /// Keys that get other values.
        #[serde(default)]
        keys: Map<String, Value>,
        /// Keys that get their defaults.
        #[serde(default)]
        unset: Vec<String>,
        /// Whether ports may be opened again for it.
        #[serde(default)]
        reopen: bool,
    } -> Change, OwnedByFile | Invalid | Absent | NotKept | Reopens | NotApplied;
    /// Removes a port. If it is not there, nothing changes.
    "port.del" = PortDel {
        /// Name of the port.
        name: String,
    } -> Change, OwnedByFile | Invalid | InUse | NotKept | NotApplied;
    /// Returns all ports, or those with some labels.
    "port.list" = PortList {
        /// Labels that the ports have: a value, or any if it is null.
        #[serde(default)]
        labels: BTreeMap<String, Option<String>>,
    } -> Vec<PortSummary>;
    /// Returns the state of a port, or null. Answers at once, also while a change is under way: ask until it is open.
    "port.get" = PortGet {
        /// Name of the port.
        name: String,
    } -> Option<PortState>;
    /// Adds a bridge, as for ports. Ports name it by their key `bridge`.
    "bridge.add" = BridgeAdd {
        /// Keys of the section, as in the configuration file.
        keys: Map<String, Value>,
    } -> Change, OwnedByFile | Differs | Invalid | NotKept | NotApplied;
    /// Changes settings of a bridge.
    "bridge.set" = BridgeSet {
        /// Name of the bridge, which it keeps.
        name: String,
        /// Keys that get other values.
        #[serde(default)]
        keys: Map<String, Value>,
        /// Keys that get their defaults.
        #[serde(default)]
        unset: Vec<String>,
        /// Whether ports may be opened again for it.
        #[serde(default)]
        reopen: bool,
    } -> Change, OwnedByFile | Invalid | Absent | NotKept | Reopens | NotApplied;
    /// Removes a bridge that has no ports.
    "bridge.del" = BridgeDel {
        /// Name of the bridge.
        name: String,
    } -> Change, OwnedByFile | Invalid | InUse | NotKept | NotApplied;
    /// Joins two ports.
    "patch.add" = PatchAdd {
        /// Keys of the section, as in the configuration file.
        keys: Map<String, Value>,
    } -> Change, OwnedByFile | Differs | Invalid | NotKept | NotApplied;
    /// Parts two ports.
    "patch.del" = PatchDel {
        /// Names of the ports, with a `+` between them.
        name: String,
    } -> Change, OwnedByFile | Invalid | InUse | NotKept | NotApplied;
    /// Returns the last events, in order, without those about addresses.
    "events.list" = EventsList {
        /// Number of the last event that the client knows: only later ones are returned.
        #[serde(default)]
        since: Option<u64>,
        /// Number of events to return at most, of the newest ones.
        #[serde(default)]
        last: Option<usize>,
    } -> Vec<Event>;
    /// Sends events to this connection from now on, each as a notification `event`, beside the answers to other calls.
    "events.follow" = EventsFollow {
        /// Number of the last event that the client knows: it gets all later ones. Without it, those to come.
        #[serde(default)]
        since: Option<u64>,
        /// Whether to send events about addresses that bridges learn, move and forget.
        #[serde(default)]
        learned: bool,
    } -> Following, Refused;
}

/// The answer to `events.follow`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Following {
    /// Number of the newest event.
    pub seq: u64,
}

/// Method of the notifications that [`EventsFollow`] asks for. Their parameters are an [`Event`].
pub const EVENT: &str = "event";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parameters_may_be_left_out_but_not_misspelt() {
        let list: PortList = serde_json::from_value(json!({})).unwrap();
        assert!(list.labels.is_empty());
        assert!(serde_json::from_value::<PortList>(json!({"label": {}})).is_err());
        assert!(serde_json::from_value::<Ports>(json!({"x": 1})).is_err());
        assert!(serde_json::from_value::<Why>(json!({})).is_err());
    }
}
