//! GROUP_MOD (Section 7.3.4.3): reads groups, checks them, and keeps what controllers ask for.

use super::wanted::Wanted;
use crate::flows::{Contains, Known, Match, Scope, in_set_order, read_list};
use crate::forwarding::{Bucket, Counters, Group, GroupKind, Lane, Tally, To};
use crate::time::Millis;
use crate::wire::ofp::{group, port};
use crate::wire::{Error, Put, Reader, write_duration};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Maximum number of groups, and of buckets in each.
pub(crate) const MAX_GROUPS: usize = 4096;
const MAX_BUCKETS: usize = 256;

/// Maximum length of a group's buckets: its description must fit into a message.
const MAX_BYTES: usize = 16 << 10;

/// All groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    entries: BTreeMap<u32, Arc<Entry>>,
    /// Changes whenever a group does.
    pub version: u64,
}

#[derive(Debug)]
struct Entry {
    group: Arc<Group>,
    /// Its buckets as received, for descriptions.
    raw: Box<[u8]>,
    created: Millis,
}

/// A GROUP_MOD.
pub(crate) enum GroupMod<'a> {
    /// Add a group, or change it.
    Set(SetGroup<'a>),
    /// Remove these.
    Delete(Wanted),
}

/// A group that is added or changed.
pub(crate) struct SetGroup<'a> {
    pub id: u32,
    /// Whether it is to be added, and not changed.
    is_new: bool,
    kind: GroupKind,
    /// The buckets, as received.
    pub buckets: Reader<'a>,
}

impl<'a> GroupMod<'a> {
    /// Reads the body of the message.
    pub fn read(mut body: Reader<'a>) -> Result<GroupMod<'a>, Error> {
        let mut fixed = || Some((body.u16()?, body.u8()?, body.u8()?, body.u32()?));
        let (command, kind, _, id) = fixed().ok_or(Error::BadLen)?;
        match command {
            0 | 1 => {
                let kind = match kind {
                    0 => GroupKind::All,
                    1 => GroupKind::Select,
                    2 => GroupKind::Indirect,
                    3 => GroupKind::FastFailover,
                    _ => return Err(Error::GroupType),
                };
                if id > group::MAX {
                    return Err(Error::GroupInvalid);
                }
                Ok(GroupMod::Set(SetGroup { id, is_new: command == 0, kind, buckets: body }))
            }
            2 if id > group::MAX && id != group::ALL => Err(Error::GroupInvalid),
            2 => Ok(GroupMod::Delete(Wanted::of(id, group::ALL))),
            _ => Err(Error::GroupCommand),
        }
    }
}

impl Groups {
    /// Adds a group, or changes it; returns it.
    pub fn set(
        &mut self,
        set: SetGroup<'_>,
        known: Known<'_>,
        counters: &Arc<Counters>,
        now: Millis,
    ) -> Result<Arc<Group>, Error> {
        let SetGroup { id, is_new, kind, buckets } = set;
        match (is_new, self.contains(id)) {
            (true, true) => return Err(Error::GroupExists),
            (false, false) => return Err(Error::GroupUnknown),
            (true, false) if self.entries.len() >= MAX_GROUPS => return Err(Error::GroupsFull),
            _ if buckets.0.len() > MAX_BYTES => return Err(Error::GroupBuckets),
            _ => {}
        }
        let (raw, tally) = (buckets.0.into(), || Tally::new(counters).ok_or(Error::GroupsFull));
        let buckets = read_buckets(kind, buckets, known, tally)?;
        let group = Arc::new(Group { kind, buckets, tally: tally()? });
        self.entries.insert(id, Arc::new(Entry { group: group.clone(), raw, created: now }));
        self.version += 1;
        Ok(group)
    }

    /// Removes groups; returns their numbers.
    pub fn delete(&mut self, wanted: Wanted) -> BTreeSet<u32> {
        let meant: BTreeSet<u32> = self.entries.keys().copied().filter(|id| wanted.has(*id)).collect();
        self.entries.retain(|id, _| !meant.contains(id));
        self.version += u64::from(!meant.is_empty());
        meant
    }

    /// Returns the first group whose number is not below `from`: its number and its description.
    pub fn describe(&self, from: u32) -> Option<(u32, Vec<u8>)> {
        let (id, entry) = self.entries.range(from..).next()?;
        let mut out = Vec::new();
        out.u16((8 + entry.raw.len()) as u16);
        out.put(&[entry.group.kind as u8, 0]);
        out.u32(*id);
        out.put(&entry.raw);
        Some((*id, out))
    }

    /// Returns the statistics of groups. `flows` has the number of flows that use each.
    pub fn stats(
        &self,
        wanted: Wanted,
        lanes: &[Arc<Lane>],
        flows: &BTreeMap<u32, u32>,
        now: Millis,
    ) -> VecDeque<Vec<u8>> {
        let meant = self.entries.iter().filter(|(id, _)| wanted.has(**id));
        let stats = |(id, entry): (&u32, &Arc<Entry>)| {
            let mut out = Vec::new();
            out.u16((40 + 16 * entry.group.buckets.len()) as u16);
            out.zeros(2);
            out.u32(*id);
            out.u32(flows.get(id).copied().unwrap_or(0));
            out.zeros(4);
            entry.group.tally.write(&mut out, lanes);
            write_duration(&mut out, now.saturating_sub(entry.created));
            entry.group.buckets.iter().for_each(|bucket| bucket.tally.write(&mut out, lanes));
            out
        };
        meant.map(stats).collect()
    }
}

impl Contains for Groups {
    fn contains(&self, id: u32) -> bool {
        self.entries.contains_key(&id)
    }
}

fn read_buckets(
    kind: GroupKind,
    mut list: Reader<'_>,
    known: Known<'_>,
    tally: impl Fn() -> Result<Tally, Error>,
) -> Result<Box<[Bucket]>, Error> {
    let mut buckets = Vec::new();
    while !list.is_empty() {
        let mut header = list;
        let len = usize::from(header.u16().ok_or(Error::BadLen)?);
        if len < 16 || len % 8 != 0 {
            return Err(Error::GroupBucket);
        }
        let mut body = Reader(&list.take(len).ok_or(Error::BadLen)?[2..]);
        let mut fixed = || Some((body.u16()?, body.u32()?, body.u32()?, body.u32()?));
        let (weight, watch_port, watch_group, _) = fixed().ok_or(Error::BadLen)?;
        let watched = Some(watch_port).filter(|watched| *watched != port::ANY);
        // Only groups of this type have weights (Section 6.5).
        if weight != 0 && kind != GroupKind::Select {
            return Err(Error::GroupInvalid);
        }
        // Groups of other types do not depend on liveness, and only ports can be watched (Section 6.5).
        let watches = matches!(kind, GroupKind::Select | GroupKind::FastFailover);
        if watch_group != port::ANY || watched.is_some() && !watches {
            return Err(Error::GroupWatchUnsupported);
        }
        if watched.is_some_and(|watched| !known.ports.contains_key(&watched)) {
            return Err(Error::GroupWatch);
        }
        let mut actions = in_set_order(&read_list(body, Scope::Bucket(known), &mut Match::any())?);
        // An output is the last action of a set.
        let to = actions.pop_if(|action| To::of(action).is_some()).and_then(|action| To::of(&action));
        if buckets.len() == MAX_BUCKETS {
            return Err(Error::GroupBuckets);
        }
        buckets.push(Bucket { weight, watched, changes: actions.into(), to, tally: tally()? });
    }
    let is_possible = match kind {
        GroupKind::Indirect => buckets.len() == 1,
        GroupKind::FastFailover => buckets.iter().all(|bucket| bucket.watched.is_some()),
        _ => true,
    };
    if is_possible { Ok(buckets.into()) } else { Err(Error::GroupInvalid) }
}
