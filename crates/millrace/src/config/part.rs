//! Parts that are added to a configuration while the switch runs: a section each, in the language of the file.

use super::build;
use super::raw::{RawFile, tagged};
use super::reach::Reach;
use super::types::Config;
use super::value::is_name;
use api::part::PartKind;
use settings::Tagged;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;
use toml::{Table, Value};

/// The keys of ports, by driver.
static TAGGED: LazyLock<Tagged> = LazyLock::new(tagged);

/// A section, read and checked by itself.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its kind.
    pub kind: PartKind,
    /// Its name, unique among the parts of its kind.
    pub name: String,
    /// Its keys, as in a file.
    pub keys: Table,
    file: RawFile,
}

impl Part {
    /// Returns the part with these keys, or its problems.
    pub fn new(kind: PartKind, mut keys: Table) -> Result<Part, Vec<String>> {
        // Patches are the same in whichever order their ports are.
        if kind == PartKind::Patch
            && let Some(Value::Array(ports)) = keys.get_mut("ports")
        {
            ports.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
        }
        let section = Value::Array(vec![Value::Table(keys.clone())]);
        let text = Table::from_iter([(kind.section().to_owned(), section)]).to_string();
        let file = read(&text)?;
        let name = match kind {
            PartKind::Port => file.ports.first().and_then(|port| Some(port.name.as_ref()?.value.clone())),
            PartKind::Bridge => file.bridges.first().and_then(|bridge| Some(bridge.name.as_ref()?.value.clone())),
            PartKind::Patch => file.patches.first().and_then(|patch| {
                let list = patch.ports.as_ref()?;
                Some(patch_name(list.iter().map(|port| port.as_str())))
            }),
        };
        let missing = || vec![format!("`{}` is missing", if kind == PartKind::Patch { "ports" } else { "name" })];
        Ok(Part { kind, name: name.ok_or_else(missing)?, keys, file })
    }

    /// Reads a part from the text of a file with one section.
    pub fn read(text: &str) -> Result<Part, Vec<String>> {
        let wrong = || vec!["it must have one section: a [[port]], a [[bridge]] or a [[patch]]".to_owned()];
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| vec![error.message().to_owned()])?;
        let kind = PartKind::ALL.into_iter().find(|kind| table.contains_key(kind.section())).ok_or_else(wrong)?;
        match (table.remove(kind.section()), table.is_empty()) {
            (Some(Value::Array(mut sections)), true) => match (sections.pop(), sections.is_empty()) {
                (Some(Value::Table(keys)), true) => Part::new(kind, keys),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }

    /// Returns the text of a file with this section.
    pub fn text(&self) -> String {
        let section = Value::Array(vec![Value::Table(self.keys.clone())]);
        Table::from_iter([(self.kind.section().to_owned(), section)]).to_string()
    }

    /// Returns the keys that `other` has differently, each with both values.
    pub fn differences(&self, other: &Part) -> Vec<String> {
        let shown = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
        let keys: std::collections::BTreeSet<_> = self.keys.keys().chain(other.keys.keys()).collect();
        let differs = keys.into_iter().filter(|key| self.keys.get(*key) != other.keys.get(*key));
        differs
            .map(|key| format!("`{key}` is {}, not {}", shown(self.keys.get(key)), shown(other.keys.get(key))))
            .collect()
    }

    /// Returns the name of a part as the switch writes it: the ports of a patch may be in whichever order.
    pub fn canonical(kind: PartKind, name: &str) -> String {
        if kind == PartKind::Patch { patch_name(name.split('+')) } else { name.to_owned() }
    }

    /// Reports whether a part of this kind can have this name.
    pub fn can_have(kind: PartKind, name: &str) -> bool {
        if kind == PartKind::Patch { name.split('+').all(is_name) } else { is_name(name) }
    }

    /// Returns the labels of a port.
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.file.ports.first().and_then(|port| Some(port.labels.as_ref()?.value.clone())).unwrap_or_default()
    }
}

/// Returns the name of a patch of these ports, in whichever order.
fn patch_name<'p>(ports: impl Iterator<Item = &'p str>) -> String {
    let mut ports: Vec<_> = ports.collect();
    ports.sort_unstable();
    ports.join("+")
}

fn read(text: &str) -> Result<RawFile, Vec<String>> {
    let read = settings::read_tagged::<RawFile>(text, &TAGGED);
    match read.file {
        Some(file) if read.problems.is_empty() => Ok(file),
        _ => Err(read.problems.iter().map(|problem| format!("{}; {}", problem.message, problem.help)).collect()),
    }
}

/// The sections of a file that was checked by itself.
#[derive(Clone, Debug)]
pub struct Document {
    pub(super) path: PathBuf,
    pub(super) file: RawFile,
}

impl Document {
    /// Builds the configuration of this file with these parts, or says why they do not fit. `reach` is that of the running switch,
    /// for the last part, if that one is new.
    pub fn with(&self, parts: &[&Part], reach: Option<&Reach>) -> Result<Config, Vec<String>> {
        let files: Vec<_> = parts.iter().map(|part| &part.file).collect();
        build::build_with(&self.path, &self.file, &files, reach)
    }

    /// Checks a part by itself, against the `reach` of the switch.
    pub fn allows(&self, part: &Part, reach: Option<&Reach>) -> Result<(), Vec<String>> {
        build::check_part(&self.path, &self.file, &part.file, reach)
    }

    /// Reports whether the file has a part of this name.
    pub fn has(&self, kind: PartKind, name: &str) -> bool {
        match kind {
            PartKind::Port => self.file.ports.iter().any(|port| port.name.as_ref().is_some_and(|at| at.value == name)),
            PartKind::Bridge => {
                self.file.bridges.iter().any(|bridge| bridge.name.as_ref().is_some_and(|at| at.value == name))
            }
            PartKind::Patch => self.file.patches.iter().any(|patch| {
                let list = patch.ports.as_ref();
                list.is_some_and(|list| patch_name(list.iter().map(|port| port.as_str())) == name)
            }),
        }
    }

    /// Returns the labels of the file's ports, by port.
    pub fn labels(&self) -> BTreeMap<&str, BTreeMap<String, String>> {
        let labels = self.file.ports.iter().filter_map(|port| {
            Some((port.name.as_ref()?.as_str(), port.labels.as_ref().map(|at| at.value.clone()).unwrap_or_default()))
        });
        labels.collect()
    }
}
