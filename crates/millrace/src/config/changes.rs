//! Configuration changes that a reload can't apply: sections read only at startup.

use super::Config;

impl Config {
    /// Returns the sections that differ from those of `old` and that a running switch does not apply.
    pub fn needs_restart_since(&self, old: &Self) -> Vec<String> {
        let control = |config: &Self| (config.control.clone(), config.kept.clone(), config.makes_directories);
        let sections = [
            ("control", control(self) != control(old)),
            ("metrics", self.metrics != old.metrics),
            // Open channels stay, and with them the identity of the switch.
            ("openflow", self.openflow != old.openflow),
            // Devices can be added and left alone while it runs.
            ("dpdk", self.dpdk.as_ref().map(|dpdk| dpdk.memory) != old.dpdk.as_ref().map(|dpdk| dpdk.memory)),
            ("confinement", self.confinement != old.confinement),
        ];
        sections.iter().filter(|(_, differs)| *differs).map(|(section, _)| (*section).to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn sections_that_a_running_switch_does_not_take_are_named() {
        let config =
            |text: &str| Config::parse(Path::new("m.toml"), text).unwrap_or_else(|report| panic!("{report}")).0;
        let flows = "port = [{name='a', driver='sink'}]\nbridge = [{name='b', ports=['a'], openflow=true}]\n";
        let old =
            config(&format!("{flows}metrics.listen = '127.0.0.1:1'\nopenflow.controllers = ['tcp:127.0.0.1:6653']"));
        let other = config(&format!("{flows}openflow.controllers = ['tcp:127.0.0.1:6654']"));
        assert_eq!(other.needs_restart_since(&old), ["metrics", "openflow"]);
        assert!(old.needs_restart_since(&old).is_empty());
    }
}
