//! The parts of the running switch and their owners: those of the configuration file, and those that are added through the API. The
//! file decides on its own parts only, and the API on its own.

pub mod directories;
mod refusal;
mod store;
#[cfg(test)]
mod tests;

pub use refusal::Refusal;
pub use store::Store;

use crate::config::{Config, Document, Part, Reach};
use api::code::Code;
use api::part::{Change, Effect, Owner, PartKind};
use engine::reload::{ReloadAction, Step};
use engine::spec::Spec;
use std::collections::{BTreeMap, BTreeSet};
use toml::Table;

/// The switch, as far as parts need it.
pub trait Changes {
    /// Returns what a change to this specification would do.
    fn preview(&self, spec: Spec) -> Vec<ReloadAction>;
    /// Changes the switch, or says why it did not. `new` is the port that is new or another, if one is.
    fn change(&self, spec: Spec, new: Option<&str>) -> Result<Vec<ReloadAction>, String>;
}

/// All parts.
#[derive(Debug)]
pub struct Parts {
    document: Document,
    added: Vec<Part>,
    /// The configuration of all.
    config: Config,
    store: Option<Store>,
    /// Files of parts that were left out at the start.
    left: BTreeSet<String>,
}

impl Parts {
    /// Returns the parts of a file, whose configuration this is, with those that `store` has kept and that are within `reach`, if the
    /// switch is confined. Also returns why some of these are left out.
    pub fn new(
        document: Document,
        config: Config,
        store: Option<Store>,
        reach: Option<&Reach>,
    ) -> std::io::Result<(Parts, Vec<String>)> {
        let mut parts = Parts { document, added: Vec::new(), config, store, left: BTreeSet::new() };
        let (mut kept, mut left) = (Vec::new(), Vec::new());
        for (file, part) in parts.store.as_ref().map(Store::load).transpose()?.into_iter().flatten() {
            // A confined switch can write these files: what they name must not give it more at its next start.
            let allowed =
                |part| parts.document.allows(&part, reach).map(|()| part).map_err(|problems| problems.join("; "));
            match part.and_then(allowed) {
                Ok(part) => kept.push((file, part)),
                Err(why) => left.push((file, why)),
            }
        }
        // Mostly all fit.
        if parts.document.with(&kept.iter().map(|(_, part)| part).collect::<Vec<_>>(), None).is_ok() {
            parts.added = kept.into_iter().map(|(_, part)| part).collect();
        } else {
            for (file, part) in kept {
                match parts.document.with(&parts.all(Some(&part)), None) {
                    _ if parts.document.has(part.kind, &part.name) => {
                        left.push((file, format!("the configuration file has that {}, too", part.kind)));
                    }
                    Ok(_) => parts.added.push(part),
                    Err(problems) => left.push((file, problems.join("; "))),
                }
            }
        }
        parts.left = left.iter().map(|(file, _)| file.clone()).collect();
        let left = left.into_iter().map(|(file, why)| format!("{file}: {why}")).collect();
        if let Ok(config) = parts.document.with(&parts.all(None), None) {
            parts.config = config;
        }
        Ok((parts, left))
    }

    /// Returns the configuration of all parts.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the owner and the labels of each port.
    pub fn ports(&self) -> BTreeMap<String, (Owner, BTreeMap<String, String>)> {
        let of_file = self.document.labels().into_iter().map(|(name, labels)| (name.to_owned(), (Owner::File, labels)));
        let added = self.added.iter().filter(|part| part.kind == PartKind::Port);
        of_file.chain(added.map(|part| (part.name.clone(), (Owner::Api, part.labels())))).collect()
    }

    /// Takes the parts of a file that has changed, with those that were added. On an error nothing has changed.
    pub fn reload(
        &mut self,
        document: Document,
        change: impl FnOnce(Spec) -> Result<Vec<ReloadAction>, String>,
    ) -> Result<(Vec<ReloadAction>, Vec<String>), String> {
        if let Some(part) = self.added.iter().find(|part| document.has(part.kind, &part.name)) {
            let Part { kind, name, .. } = part;
            let arguments = name.replace('+', " ");
            return Err(format!(
                "the file has {kind} `{name}`, which was added at run time, too: remove it there, or here by `millrace ctl {kind} del \
                 {arguments}`"
            ));
        }
        let together = |problems: Vec<String>| {
            format!("the file does not fit the parts that were added at run time: {}", problems.join("\n"))
        };
        let config = document.with(&self.all(None), None).map_err(together)?;
        let actions = change(config.spec.clone())?;
        let needs_restart = config.needs_restart_since(&self.config);
        (self.document, self.config) = (document, config);
        Ok((actions, needs_restart))
    }

    /// Adds a part. If it is there with the same settings, nothing changes.
    pub fn add(
        &mut self,
        kind: PartKind,
        keys: Table,
        reach: Option<&Reach>,
        switch: &impl Changes,
    ) -> Result<Change, Refusal> {
        let part = Part::new(kind, keys).map_err(Refusal::invalid)?;
        self.may_decide(kind, &part.name)?;
        if let Some(had) = self.find(kind, &part.name) {
            let differences = had.differences(&part);
            return match differences.is_empty() {
                true => Ok(Change { kind, name: part.name, effect: Effect::Unchanged, actions: vec![] }),
                false => Err(Refusal::new(
                    Code::Differs,
                    format!("{kind} `{}` is there with other settings: {}", part.name, differences.join(", ")),
                )),
            };
        }
        let config = self.document.with(&self.all(Some(&part)), reach).map_err(Refusal::invalid)?;
        self.is_not_left(&part)?;
        self.keep(&part)?;
        let actions = switch.change(config.spec.clone(), new(&part)).map_err(|why| self.undo(None, &part, why))?;
        let name = part.name.clone();
        self.added.push(part);
        self.config = config;
        Ok(Change { kind, name, effect: Effect::Added, actions: taken(actions) })
    }

    /// Gives a part other values for these keys, and takes those from it that are to be `unset`. Refuses to open a port again unless
    /// that is allowed.
    pub fn set(
        &mut self,
        (kind, name): (PartKind, &str),
        (keys, unset, may_reopen): (Table, &[String], bool),
        reach: Option<&Reach>,
        switch: &impl Changes,
    ) -> Result<Change, Refusal> {
        self.may_decide(kind, name)?;
        let absent = || Refusal::new(Code::Absent, format!("there is no {kind} `{name}`"));
        let at = self.added.iter().position(|part| part.kind == kind && part.name == name).ok_or_else(absent)?;
        let had = self.added[at].clone();
        let mut next = had.keys.clone();
        next.extend(keys);
        unset.iter().for_each(|key| drop(next.remove(key)));
        let part = Part::new(kind, next).map_err(Refusal::invalid)?;
        if part.name != name {
            return Err(Refusal::new(
                Code::Invalid,
                format!("{kind} `{name}` keeps its name: add another one instead"),
            ));
        }
        if had.differences(&part).is_empty() {
            return Ok(Change { kind, name: part.name, effect: Effect::Unchanged, actions: vec![] });
        }
        // Alone, it is checked against the reach; together, in its place.
        let others: Vec<&Part> = self.added.iter().filter(|other| !is(other, kind, name)).chain([&part]).collect();
        self.document.with(&others, reach).map_err(Refusal::invalid)?;
        let parts: Vec<&Part> =
            self.added.iter().map(|other| if is(other, kind, name) { &part } else { other }).collect();
        let config = self.document.with(&parts, None).map_err(Refusal::invalid)?;
        let reopened = |action: &ReloadAction| action.step == Step::Reopened;
        let reopened: Vec<_> = switch.preview(config.spec.clone()).into_iter().filter(reopened).collect();
        if !may_reopen && !reopened.is_empty() {
            let lines: Vec<_> = reopened
                .iter()
                .map(|action| format!("{} {} ({})", action.subject, action.name, action.why.join(", ")))
                .collect();
            return Err(Refusal::new(
                Code::Reopens,
                format!(
                    "this opens again: {}; its peers have to connect again. Allow it with --reopen",
                    lines.join("; ")
                ),
            ));
        }
        self.keep(&part)?;
        let actions =
            switch.change(config.spec.clone(), new(&part)).map_err(|why| self.undo(Some(&had), &part, why))?;
        self.added[at] = part;
        self.config = config;
        Ok(Change { kind, name: name.to_owned(), effect: Effect::Changed, actions: taken(actions) })
    }

    /// Removes a part. If it is not there, nothing changes.
    pub fn remove(&mut self, kind: PartKind, name: &str, switch: &impl Changes) -> Result<Change, Refusal> {
        self.may_decide(kind, name)?;
        let Some(at) = self.added.iter().position(|part| is(part, kind, name)) else {
            // It may have been left out at the start.
            self.forget(kind, name)?;
            self.left.remove(&store::name(kind, name));
            return Ok(Change { kind, name: name.to_owned(), effect: Effect::Unchanged, actions: vec![] });
        };
        let rest: Vec<_> = self.added.iter().filter(|part| !is(part, kind, name)).collect();
        let in_use = |problems: Vec<String>| {
            Refusal::new(Code::InUse, format!("others need {kind} `{name}`: {}", problems.join("; ")))
        };
        let config = self.document.with(&rest, None).map_err(in_use)?;
        self.forget(kind, name)?;
        let part = &self.added[at];
        let actions = switch.change(config.spec.clone(), None).map_err(|why| self.undo(Some(part), part, why))?;
        self.added.remove(at);
        self.config = config;
        Ok(Change { kind, name: name.to_owned(), effect: Effect::Removed, actions: taken(actions) })
    }

    fn find(&self, kind: PartKind, name: &str) -> Option<&Part> {
        self.added.iter().find(|part| is(part, kind, name))
    }

    /// Returns all added parts, and one more.
    fn all<'p>(&'p self, more: Option<&'p Part>) -> Vec<&'p Part> {
        self.added.iter().chain(more).collect()
    }

    /// Checks that the API may decide on a part.
    fn may_decide(&self, kind: PartKind, name: &str) -> Result<(), Refusal> {
        // Files are named by it.
        if !Part::can_have(kind, name) {
            return Err(Refusal::new(Code::Invalid, format!("`{name}` cannot name a {kind}")));
        }
        match self.document.has(kind, name) {
            true => Err(Refusal::new(
                Code::OwnedByFile,
                format!("{kind} `{name}` is the configuration file's: change it there, and reload"),
            )),
            false => Ok(()),
        }
    }

    /// Refuses to write over the file of a part that was left out at the start.
    fn is_not_left(&self, part: &Part) -> Result<(), Refusal> {
        let Part { kind, name, .. } = part;
        let file = store::name(*kind, name);
        match &self.store {
            Some(store) if self.left.contains(&file) => {
                let file = store.path().join(file);
                let message = format!(
                    "{} has {kind} `{name}`, which was left out at the start: remove it first (`millrace ctl {kind} del {}`), or mend \
                     the file and start the switch again",
                    file.display(),
                    name.replace('+', " ")
                );
                Err(Refusal::new(Code::Differs, message))
            }
            _ => Ok(()),
        }
    }

    fn keep(&self, part: &Part) -> Result<(), Refusal> {
        let Some(store) = &self.store else { return Ok(()) };
        store.put(part).map_err(|error| Refusal::not_kept(store, &error))
    }

    fn forget(&self, kind: PartKind, name: &str) -> Result<(), Refusal> {
        let Some(store) = &self.store else { return Ok(()) };
        store.remove(kind, name).map_err(|error| Refusal::not_kept(store, &error))
    }

    /// Keeps a part as it was, `had`, as a change of it was not applied for this reason.
    fn undo(&self, had: Option<&Part>, part: &Part, why: String) -> Refusal {
        let undone = match had {
            Some(had) => self.keep(had),
            None => self.forget(part.kind, &part.name),
        };
        let more = undone.err().map(|refusal| format!("; {}", refusal.message)).unwrap_or_default();
        Refusal::new(Code::NotApplied, format!("{why}{more}"))
    }
}

fn is(part: &Part, kind: PartKind, name: &str) -> bool {
    part.kind == kind && part.name == name
}

/// Returns the name of a port.
fn new(part: &Part) -> Option<&str> {
    (part.kind == PartKind::Port).then_some(&*part.name)
}

/// Returns the actions that changed something.
fn taken(actions: Vec<ReloadAction>) -> Vec<ReloadAction> {
    actions.into_iter().filter(ReloadAction::is_news).collect()
}
