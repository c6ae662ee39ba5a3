//! A long answer, built piece by piece as the controller reads, so that it never takes more memory than one message.

use super::stats::flow_stats;
use crate::flows::Filter;
use crate::forwarding::FlowId;
use crate::tables::Tables;
use crate::time::Millis;
use crate::wire::ofp::{message, multipart};
use crate::wire::{Put, put_message};
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of entries in one message, so that it stays below 64 KiB.
const PIECE: usize = 60_000;

/// An answer to MULTIPART_REQUEST, and its progress.
#[derive(Debug)]
pub(super) struct Answer {
    xid: u32,
    kind: u16,
    entries: Entries,
    /// An entry that did not fit into the previous message.
    held: Option<Vec<u8>>,
}

/// The entries still to be sent.
#[derive(Debug)]
pub(super) enum Entries {
    /// A few entries, complete already.
    Listed(VecDeque<Vec<u8>>),
    /// Descriptions of groups, from the one of this number on.
    Groups(Option<u32>),
    /// Flows, possibly very many.
    Flows(Box<Flows>),
}

/// A walk through tables that may change meanwhile: it skips removed flows and new ones.
#[derive(Debug)]
pub(super) struct Flows {
    pub filter: Filter,
    /// By table: the flows still to visit.
    pub tables: VecDeque<(u8, Range<FlowId>)>,
    /// The time of the request.
    pub now: Millis,
}

impl Answer {
    pub(crate) fn new(xid: u32, kind: u16, entries: Entries) -> Answer {
        Answer { xid, kind, entries, held: None }
    }

    /// Appends one message, and reports whether more follow.
    pub(crate) fn write(&mut self, tables: &Tables, out: &mut Vec<u8>) -> bool {
        let mut body = Vec::new();
        while let Some(entry) = self.held.take().or_else(|| self.entries.next(tables)) {
            if !body.is_empty() && body.len() + entry.len() > PIECE {
                self.held = Some(entry);
                break;
            }
            body.extend(entry);
        }
        let more = self.held.is_some();
        put_message(out, message::MULTIPART_REPLY, self.xid, |out| {
            out.u16(self.kind);
            out.u16(if more { multipart::MORE } else { 0 });
            out.zeros(4);
            out.put(&body);
        });
        more
    }
}

impl Entries {
    fn next(&mut self, tables: &Tables) -> Option<Vec<u8>> {
        match self {
            Entries::Listed(entries) => entries.pop_front(),
            Entries::Groups(from) => {
                let (id, entry) = tables.groups().describe((*from)?)?;
                *from = id.checked_add(1);
                Some(entry)
            }
            Entries::Flows(flows) => flows.next(tables),
        }
    }
}

impl Flows {
    fn next(&mut self, tables: &Tables) -> Option<Vec<u8>> {
        while let Some((number, left)) = self.tables.front_mut() {
            let table = tables.meant(*number).first();
            if let Some((id, flow)) = table.and_then(|table| table.first_of(left.clone(), &self.filter)) {
                left.start = FlowId(id.0 + 1);
                return Some(flow_stats(*number, flow, self.now));
            }
            self.tables.pop_front();
        }
        None
    }
}
