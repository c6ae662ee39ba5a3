//! What a reload has to touch: the difference between two configurations.

use super::{Config, FailMode, Openflow, Port};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// What a reload did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadReport {
    /// Ports that are new.
    pub added: Vec<String>,
    /// Ports that are gone.
    pub removed: Vec<String>,
    /// Ports that were closed and opened again, because their driver or its options changed.
    pub reopened: Vec<String>,
    /// Ports that were not touched.
    pub kept: Vec<String>,
    /// Patches, bridges, VLANs, mappings or aggregation changed.
    pub forwarding_changed: bool,
    /// Workers changed, or what they poll.
    pub workers_changed: bool,
    /// Sections that changed but take effect only when the switch is started again.
    pub needs_restart: Vec<String>,
    /// Warnings about the new configuration, as `check` gives them.
    pub warnings: Vec<String>,
}

impl Config {
    /// What it takes to get from `old` to this configuration; without warnings.
    pub fn changes_from(&self, old: &Self) -> ReloadReport {
        let before: HashMap<&str, &Port> = old.ports.iter().map(|port| (port.name.as_str(), port)).collect();
        let mut report = ReloadReport::default();
        let mut vlans_changed = false;
        let forwarding = |config: &Self| config.openflow.as_ref().map(|openflow| (openflow.fail_mode, openflow.relay));
        for port in &self.ports {
            let list = match before.get(port.name.as_str()) {
                None => &mut report.added,
                Some(old) => {
                    vlans_changed |= old.vlan != port.vlan;
                    if port.opens_like(old) { &mut report.kept } else { &mut report.reopened }
                }
            };
            list.push(port.name.clone());
        }
        let gone = |port: &&Port| self.ports.iter().all(|new| new.name != port.name);
        report.removed = old.ports.iter().filter(gone).map(|port| port.name.clone()).collect();
        report.forwarding_changed = vlans_changed
            || self.patches != old.patches
            || self.bridges != old.bridges
            || self.mappings != old.mappings
            || self.aggregation != old.aggregation
            || forwarding(self) != forwarding(old);
        report.workers_changed = self.workers != old.workers || self.assignment() != old.assignment();
        if self.control != old.control {
            report.needs_restart.push("control".to_owned());
        }
        if self.metrics != old.metrics {
            report.needs_restart.push("metrics".to_owned());
        }
        // Channels stay as they are, and with them how the switch is known.
        let channels = |config: &Self| {
            config.openflow.clone().map(|openflow| Openflow {
                fail_mode: FailMode::default(),
                relay: false,
                ..openflow
            })
        };
        if channels(self) != channels(old) {
            report.needs_restart.push("openflow".to_owned());
        }
        if self.confinement != old.confinement {
            report.needs_restart.push("confinement".to_owned());
        }
        report
    }
}

impl Port {
    /// An open port of `other` is as good as a newly opened one of this. (VLANs are the bridge's business.)
    pub fn opens_like(&self, other: &Self) -> bool {
        self.name == other.name
            && self.driver == other.driver
            && self.aggregate == other.aggregate
            && self.fault == other.fault
            && self.record_to == other.record_to
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn config(text: &str) -> Config {
        Config::parse(Path::new("m.toml"), text).unwrap_or_else(|report| panic!("{report}")).0
    }

    #[test]
    fn only_what_changed_is_touched() {
        let old = config(
            r#"
            port = [{name="a", driver="sink"}, {name="b", driver="generator", size=64}, {name="c", driver="sink", vlan=1},
                    {name="d", driver="sink", vlan=1}]
            patch = [{ports=["a", "b"]}]
            bridge = [{name="br", ports=["c", "d"]}]
            metrics.listen = "127.0.0.1:1"
            "#,
        );
        let new = config(
            r#"
            port = [{name="a", driver="sink"}, {name="b", driver="generator", size=128}, {name="c", driver="sink", vlan=2},
                    {name="e", driver="sink", vlan=2}]
            patch = [{ports=["a", "b"]}]
            bridge = [{name="br", ports=["c", "e"]}]
            "#,
        );
        let report = new.changes_from(&old);
        assert_eq!(report.added, ["e"]);
        assert_eq!(report.removed, ["d"]);
        assert_eq!(report.reopened, ["b"]);
        assert_eq!(report.kept, ["a", "c"]);
        assert!(report.forwarding_changed && report.workers_changed);
        assert_eq!(report.needs_restart, ["metrics"]);

        let same = old.changes_from(&old);
        assert_eq!(same.kept.len(), 4);
        assert!(!same.forwarding_changed && !same.workers_changed && same.needs_restart.is_empty());
    }
}
