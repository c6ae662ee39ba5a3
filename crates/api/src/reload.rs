//! Reloads: the actions on parts of the switch, and the report of all.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One action of a reload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReloadAction {
    /// Kind of part.
    pub subject: Subject,
    /// Name of the part: patches, mappings, exchanges and mirrors are named after their ports, workers by number.
    pub name: String,
    /// Step taken.
    pub step: Step,
    /// Differences that caused the step; empty for parts that are kept, added or removed.
    pub why: Vec<String>,
    /// Reason for a failure, after which the port is down, not recorded, or being opened again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ReloadAction {
    /// Reports whether it changed something, or failed to.
    pub fn is_news(&self) -> bool {
        self.step != Step::Kept || self.error.is_some()
    }
}

/// Parts of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// A port.
    Port,
    /// A patch between two ports.
    Patch,
    /// A bridge.
    Bridge,
    /// A mapping of a physical port to a guest.
    Mapping,
    /// A group of ports whose functions exchange buffers.
    Exchange,
    /// A mirror of ports' frames.
    Mirror,
    /// Packet aggregation.
    Aggregation,
    /// A worker.
    Worker,
}

/// A step taken on a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// It is added.
    Added,
    /// It is removed.
    Removed,
    /// It ends and starts again: a port's peers are disconnected, a mapping's buffers are returned, a worker gets a new thread.
    Reopened,
    /// It changes while it runs, and its peers stay connected.
    Changed,
    /// It is not touched.
    Kept,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subject::Port => "port",
            Subject::Patch => "patch",
            Subject::Bridge => "bridge",
            Subject::Mapping => "mapping",
            Subject::Exchange => "exchange",
            Subject::Mirror => "mirror",
            Subject::Aggregation => "aggregation",
            Subject::Worker => "worker",
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Added => "added",
            Step::Removed => "removed",
            Step::Reopened => "reopened",
            Step::Changed => "changed",
            Step::Kept => "kept",
        })
    }
}

/// One line: `changed bridge br (ports)`.
impl fmt::Display for ReloadAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.step, self.subject)?;
        if !self.name.is_empty() {
            write!(f, " {}", self.name)?;
        }
        if !self.why.is_empty() {
            write!(f, " ({})", self.why.join(", "))?;
        }
        self.error.iter().try_for_each(|error| write!(f, ", which FAILED: {error}"))
    }
}

/// Outcome of a reload. Displayed as one line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReloadReport {
    /// The action taken for every part of the switch, including those kept.
    pub actions: Vec<ReloadAction>,
    /// Sections that changed but take effect only at the next start.
    pub needs_restart: Vec<String>,
    /// Warnings about the new configuration, as `check` gives them.
    pub warnings: Vec<String>,
    /// Sockets for control, metrics and OpenFlow that others had removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sockets: Vec<Mended>,
}

/// A socket of the switch's own that others had removed or replaced. Displayed as one line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mended {
    /// Its path.
    pub path: String,
    /// Error that kept it from being recreated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl fmt::Display for Mended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            None => write!(f, "recreated socket {}, which was gone", self.path),
            Some(error) => write!(f, "socket {} is gone, and recreating it FAILED: {error}", self.path),
        }
    }
}

impl ReloadReport {
    /// Returns the ports for which `step` was taken.
    pub fn ports(&self, step: Step) -> Vec<&str> {
        let of = |action: &&ReloadAction| action.subject == Subject::Port && action.step == step;
        self.actions.iter().filter(of).map(|action| action.name.as_str()).collect()
    }

    /// Returns the number of actions, and of sockets, that failed.
    pub fn failed(&self) -> usize {
        let sockets = self.sockets.iter().filter(|mended| mended.error.is_some());
        self.actions.iter().filter(|action| action.error.is_some()).count() + sockets.count()
    }

    /// Returns the actions, pending restarts and warnings, one item each.
    pub fn items(&self) -> Vec<String> {
        let mut items: Vec<_> = self.sockets.iter().map(Mended::to_string).collect();
        items.extend(self.actions.iter().filter(|action| action.is_news()).map(ReloadAction::to_string));
        if items.is_empty() {
            items.push("nothing changed".to_owned());
        }
        items.extend(self.kept());
        let later = |section| format!("[{section}] changed, which takes effect when the switch is started again");
        items.extend(self.needs_restart.iter().map(later));
        items.extend(self.warnings.iter().map(|warning| format!("warning: {warning}")));
        items
    }

    /// Counts the parts that were kept. Aggregation is not counted: there is one at most.
    fn kept(&self) -> Option<String> {
        let mut counts = BTreeMap::<Subject, usize>::new();
        let kept = |action: &&ReloadAction| action.step == Step::Kept && action.subject != Subject::Aggregation;
        self.actions.iter().filter(kept).for_each(|action| *counts.entry(action.subject).or_default() += 1);
        let counts: Vec<_> = counts.into_iter().map(|(subject, count)| counted(count, subject)).collect();
        (!counts.is_empty()).then(|| format!("kept {}", counts.join(", ")))
    }
}

/// Returns `1 patch`, or `2 patches`.
fn counted(count: usize, subject: Subject) -> String {
    let ending = match subject.to_string() {
        _ if count == 1 => "",
        name if name.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{count} {subject}{ending}")
}

impl fmt::Display for ReloadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.items().join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(subject: Subject, name: &str, step: Step) -> ReloadAction {
        ReloadAction { subject, name: name.into(), step, why: vec![], error: None }
    }

    #[test]
    fn a_line_has_the_action_the_reason_and_the_failure() {
        assert_eq!(ReloadReport::default().to_string(), "nothing changed");
        let report = ReloadReport {
            actions: vec![
                action(Subject::Port, "a", Step::Kept),
                ReloadAction { why: vec!["vxlan".into()], ..action(Subject::Port, "b", Step::Reopened) },
                ReloadAction { error: Some("no such device".into()), ..action(Subject::Port, "c", Step::Added) },
                action(Subject::Bridge, "br", Step::Removed),
                action(Subject::Worker, "0", Step::Kept),
                action(Subject::Patch, "a-d", Step::Kept),
                action(Subject::Patch, "e-f", Step::Kept),
                action(Subject::Aggregation, "", Step::Kept),
            ],
            needs_restart: vec!["metrics".into()],
            warnings: vec!["it is late".into()],
            sockets: vec![
                Mended { path: "/run/c.sock".into(), error: None },
                Mended { path: "/run/m.sock".into(), error: Some("no".into()) },
            ],
        };
        assert_eq!(
            report.to_string(),
            "recreated socket /run/c.sock, which was gone; \
             socket /run/m.sock is gone, and recreating it FAILED: no; \
             reopened port b (vxlan); added port c, which FAILED: no such device; removed bridge br; kept 1 port, 2 patches, \
             1 worker; \
             [metrics] changed, which takes effect when the switch is started again; warning: it is late"
        );
        assert_eq!((report.failed(), report.ports(Step::Kept)), (2, vec!["a"]));
    }

    #[test]
    fn scripts_get_the_same_as_json() {
        let changed = ReloadAction { why: vec!["VLANs".into()], ..action(Subject::Port, "a", Step::Changed) };
        let report = ReloadReport { actions: vec![changed], ..ReloadReport::default() };
        let expected = serde_json::json!({
            "actions": [{"subject": "port", "name": "a", "step": "changed", "why": ["VLANs"]}],
            "needs_restart": [],
            "warnings": [],
        });
        assert_eq!(serde_json::to_value(&report).unwrap(), expected);
    }
}
