//! Flow rules of an interface's hardware: frames to an address arrive in a queue.
//!
//! The kernel has no netlink message for them; the requests are those of `ethtool -N` (linux/ethtool.h,
//! `struct ethtool_rxnfc`).

use super::ethtool;
use crate::link::Link;
use packet::MacAddr;
use std::io;
use std::mem::offset_of;

/// `ETHTOOL_GRXCLSRLCNT`, `ETHTOOL_GRXCLSRULE`, `ETHTOOL_GRXCLSRLALL`, `ETHTOOL_SRXCLSRLDEL`, `ETHTOOL_SRXCLSRLINS`.
const COUNT: u32 = 0x2e;
const GET: u32 = 0x2f;
const LIST: u32 = 0x30;
const DELETE: u32 = 0x31;
const INSERT: u32 = 0x32;

/// `ETHER_FLOW`: a rule by fields of the Ethernet header.
const ETHER_FLOW: u32 = 0x12;
/// `RX_CLS_LOC_SPECIAL`: the driver finds a free location by itself ...
const FINDS_LOCATION: u64 = 0x8000_0000;
/// `RX_CLS_LOC_ANY`: ... if it is asked to by this one.
const ANY_LOCATION: u32 = 0xffff_ffff;

/// The mask under which every bit of an address counts.
const ALL_BITS: MacAddr = MacAddr([0xff; 6]);

/// `struct ethtool_rx_flow_spec`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FlowSpec {
    flow_type: u32,
    fields: Fields,
    masks: Fields,
    queue: u64,
    location: u32,
}

/// A `union ethtool_flow_union` that holds a `struct ethhdr`, and a `struct ethtool_flow_ext`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fields {
    destination: MacAddr,
    rest: [u8; 46],
    extension: [u8; 20],
}

/// `struct ethtool_rxnfc`; the kernel calls the last field `rule_cnt`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Request {
    command: u32,
    flow_type: u32,
    data: u64,
    spec: FlowSpec,
    count: u32,
}

const _: () = assert!(size_of::<FlowSpec>() == 168 && size_of::<Request>() == 192);
const _: () = assert!(offset_of!(FlowSpec, masks) == 76 && offset_of!(FlowSpec, queue) == 152);
const _: () = assert!(offset_of!(Request, spec) == 16 && offset_of!(Request, count) == 184);

impl Fields {
    const fn of(destination: MacAddr) -> Fields {
        Fields { destination, rest: [0; _], extension: [0; _] }
    }
}

impl FlowSpec {
    fn new(mac: MacAddr, queue: u32, location: u32) -> FlowSpec {
        FlowSpec {
            flow_type: ETHER_FLOW,
            fields: Fields::of(mac),
            masks: Fields::of(ALL_BITS),
            queue: queue.into(),
            location,
        }
    }

    /// Returns a specification that says nothing but a location: drivers fill in only the fields of a rule.
    fn at(location: u32) -> FlowSpec {
        let nothing = Fields::of(MacAddr([0; 6]));
        FlowSpec { flow_type: 0, fields: nothing, masks: nothing, queue: 0, location }
    }
}

impl Request {
    fn new(command: u32, spec: FlowSpec) -> Request {
        Request { command, flow_type: 0, data: 0, spec, count: 0 }
    }
}

/// A rule in force. Dropping it removes it.
#[derive(Debug)]
pub struct Rule {
    link: Link,
    location: u32,
}

/// Has the hardware of an interface bring frames to `mac` to `queue`. A rule that does so already, such as one that was left
/// behind, is taken over. An error says why the interface does not.
pub fn steer(link: &Link, mac: MacAddr, queue: u32) -> Result<Rule, String> {
    let location = insert(&mut Hardware(link), mac, queue).map_err(|error| match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => {
            let driver = super::driver(link).unwrap_or_else(|| "unknown".into());
            format!("driver {driver} has no rules by MAC address, or needs `ethtool -K {} ntuple on`", link.name)
        }
        _ => format!("{error}; see `ethtool -n {}`", link.name),
    })?;
    Ok(Rule { link: link.clone(), location })
}

impl Drop for Rule {
    fn drop(&mut self) {
        // Another interface may have its name by now. One that is gone has no rules.
        let Some(link) = super::under_its_name(&self.link) else { return };
        let _ = Hardware(&link).ask(&mut Request::new(DELETE, FlowSpec::at(self.location)));
    }
}

/// The rules of an interface's hardware.
trait RuleTable {
    fn ask(&mut self, request: &mut Request) -> io::Result<()>;
    /// Returns the size of the table, and the locations of all rules, `count` of which were there before.
    fn list(&mut self, count: u32) -> io::Result<(u64, Vec<u32>)>;
}

struct Hardware<'l>(&'l Link);

impl RuleTable for Hardware<'_> {
    fn ask(&mut self, request: &mut Request) -> io::Result<()> {
        ethtool(self.0, (&raw mut *request).cast())
    }

    fn list(&mut self, count: u32) -> io::Result<(u64, Vec<u32>)> {
        // The list follows the request, in place of its last padding.
        let list = offset_of!(Request, count) + size_of::<u32>();
        let mut buffer = vec![0u64; (list + count as usize * size_of::<u32>()).div_ceil(8)];
        let request: *mut Request = buffer.as_mut_ptr().cast();
        // SAFETY: the buffer is aligned for a request and longer than one, as the list starts in its padding; and it is
        // not accessed otherwise meanwhile.
        unsafe {
            request.write(Request::new(LIST, FlowSpec::at(0)));
            (&raw mut (*request).count).write(count);
        }
        ethtool(self.0, request.cast())?;
        // SAFETY: as above. The kernel has written how many locations follow, at most `count`.
        let (size, found) =
            unsafe { ((&raw const (*request).data).read(), (&raw const (*request).count).read().min(count)) };
        let words = buffer.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]);
        Ok((size, words.skip(list / size_of::<u32>()).take(found as usize).collect()))
    }
}

/// Inserts a rule, and returns its location.
fn insert(rules: &mut impl RuleTable, mac: MacAddr, queue: u32) -> io::Result<u32> {
    let mut table = Request::new(COUNT, FlowSpec::at(0));
    rules.ask(&mut table)?;
    let (size, taken) = rules.list(table.count)?;
    for &location in &taken {
        let mut known = Request::new(GET, FlowSpec::at(location));
        if rules.ask(&mut known).is_ok() && known.spec == FlowSpec::new(mac, queue, location) {
            return Ok(location);
        }
    }
    let location = if table.data & FINDS_LOCATION != 0 {
        ANY_LOCATION
    } else {
        // As `ethtool` does: the last free one, which has the lowest priority. The answer to COUNT need not have the size.
        (0..size as u32).rev().find(|location| !taken.contains(location)).ok_or(io::ErrorKind::StorageFull)?
    };
    let mut request = Request::new(INSERT, FlowSpec::new(mac, queue, location));
    rules.ask(&mut request)?;
    Ok(request.spec.location)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    /// Hardware with a table of four rules.
    #[derive(Default)]
    struct Table {
        rules: BTreeMap<u32, FlowSpec>,
        finds_location: bool,
    }

    impl RuleTable for Table {
        fn ask(&mut self, request: &mut Request) -> io::Result<()> {
            match request.command {
                COUNT => {
                    request.count = self.rules.len() as u32;
                    request.data = if self.finds_location { FINDS_LOCATION | 4 } else { 0 };
                }
                GET => request.spec = *self.rules.get(&request.spec.location).ok_or(io::ErrorKind::NotFound)?,
                INSERT => {
                    let at = &mut request.spec.location;
                    if *at == ANY_LOCATION {
                        assert!(self.finds_location);
                        *at = (0..4).find(|at| !self.rules.contains_key(at)).ok_or(io::ErrorKind::StorageFull)?;
                    }
                    assert!(*at < 4 && self.rules.insert(*at, request.spec).is_none());
                }
                other => panic!("request {other:#x}"),
            }
            Ok(())
        }

        fn list(&mut self, count: u32) -> io::Result<(u64, Vec<u32>)> {
            assert_eq!(count, self.rules.len() as u32);
            Ok((4, self.rules.keys().copied().collect()))
        }
    }

    #[test]
    fn rules_get_locations_that_are_free() {
        for (finds_location, expected) in [(false, [3, 2, 1, 0]), (true, [0, 1, 2, 3])] {
            let mut table = Table { finds_location, ..Table::default() };
            for (queue, location) in (0..).zip(expected) {
                assert_eq!(insert(&mut table, MAC, queue).unwrap(), location);
            }
            assert_eq!(table.rules[&expected[2]], FlowSpec::new(MAC, 2, expected[2]));
            assert_eq!(insert(&mut table, OTHER, 0).unwrap_err().kind(), io::ErrorKind::StorageFull);
            // The NIC has this rule already.
            assert_eq!(insert(&mut table, MAC, 1).unwrap(), expected[1]);
        }
    }

    #[test]
    fn an_interface_without_rules_says_so() {
        let why = steer(&Link::named("lo").unwrap(), MAC, 0).unwrap_err();
        assert!(why.contains("has no rules by MAC address"), "{why}");
    }
}
