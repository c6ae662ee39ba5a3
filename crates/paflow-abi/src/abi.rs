//! The functions of `include/paflow.h`.
//!
//! A panic can't leave an `extern "C"` function: it aborts the program.

use crate::join::{Group, Join, write};
use crate::rules::{PortRules, explain};
use crate::{reason, split};
use paflow::Piece;
use paflow::decode::MOST;
use paflow::plan::MAX_BURST;
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// A packet to be sent.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Packet {
    /// The bytes that it begins with.
    pub bytes: *const u8,
    /// Their number.
    pub there: u32,
    /// Its length.
    pub length: u32,
}

impl Packet {
    /// Returns the bytes that it begins with.
    ///
    /// # Safety
    /// They must stay there and unchanged for `'p`.
    #[inline(always)]
    unsafe fn bytes<'p>(self) -> &'p [u8] {
        // SAFETY: the caller of this library has `there` bytes at `bytes`, as the header says.
        unsafe { from_raw_parts(self.bytes, self.there as usize) }
    }
}

/// Loads rules.
///
/// # Safety
/// `file` and `port` are strings, and `error` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paflow_rules_load(
    file: *const c_char,
    port: *const c_char,
    error: *mut c_char,
    size: usize,
) -> *mut PortRules {
    // SAFETY: the caller passes strings that end in zero, and keeps them during the call.
    let (file, port) = unsafe { (CStr::from_ptr(file), CStr::from_ptr(port)) };
    match PortRules::load(Path::new(OsStr::from_bytes(file.to_bytes())), &port.to_string_lossy()) {
        Ok(rules) => Box::into_raw(Box::new(rules)),
        Err(failed) => {
            let said = explain(&failed);
            let len = said.floor_char_boundary(size.saturating_sub(1));
            if size > 0 {
                // SAFETY: there is room for `size` bytes, and the text with its zero has no more.
                unsafe {
                    error.cast::<u8>().copy_from_nonoverlapping(said.as_ptr(), len);
                    error.add(len).write(0);
                }
            }
            null_mut()
        }
    }
}

/// Frees rules.
///
/// # Safety
/// They are from [`paflow_rules_load`], or null, and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paflow_rules_free(rules: *mut PortRules) {
    if !rules.is_null() {
        // SAFETY: they are from `Box::into_raw`, and freed once.
        drop(unsafe { Box::from_raw(rules) });
    }
}

/// Returns the MTU of aggregates.
#[unsafe(no_mangle)]
pub extern "C" fn paflow_rules_mtu(rules: &PortRules) -> u16 {
    rules.mtu()
}

/// Returns the number of next hops behind the port.
#[unsafe(no_mangle)]
pub extern "C" fn paflow_rules_next_hops(rules: &PortRules) -> usize {
    rules.next_hops()
}

/// Finds the packets in a frame.
///
/// # Safety
/// The frame has `length` bytes, and there are [`MOST`] pieces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paflow_split(
    rules: &PortRules,
    frame: *const u8,
    length: usize,
    pieces: *mut Piece,
    congested: &mut u8,
) -> c_int {
    // SAFETY: the caller passes as much, and gives both to nobody else during the call.
    let (frame, pieces) = unsafe { (from_raw_parts(frame, length), from_raw_parts_mut(pieces, MOST)) };
    let (count, is_congested) = split::split(rules, frame, pieces);
    *congested = is_congested.into();
    count
}

/// Marks a packet.
///
/// # Safety
/// It has `length` bytes, which nobody else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paflow_mark(packet: *mut u8, length: usize) -> c_int {
    // SAFETY: the caller passes as much.
    split::mark(unsafe { from_raw_parts_mut(packet, length) })
}

/// Returns the name of a reason, or null.
#[unsafe(no_mangle)]
pub extern "C" fn paflow_reason(number: c_int) -> *const c_char {
    reason::name(number).map_or(std::ptr::null(), CStr::as_ptr)
}

/// Creates memory for planning.
#[unsafe(no_mangle)]
pub extern "C" fn paflow_join_new() -> *mut Join {
    Box::into_raw(Box::default())
}

/// Frees it.
///
/// # Safety
/// It is from [`paflow_join_new`], or null, and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paflow_join_free(join: *mut Join) {
    if !join.is_null() {
        // SAFETY: it is from `Box::into_raw`, and freed once.
        drop(unsafe { Box::from_raw(join) });
    }
}

/// Groups packets.
///
/// # Safety
/// All arrays have `count` elements, and all packets their bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paflow_plan(
    join: &mut Join,
    rules: &PortRules,
    packets: *const Packet,
    count: u16,
    order: *mut u16,
    groups: *mut Group,
) -> u16 {
    if usize::from(count) > MAX_BURST {
        return 0;
    }
    // SAFETY: the caller passes `count` packets, with their bytes, and changes none during the call.
    let packets = unsafe { from_raw_parts(packets, count.into()) };
    // SAFETY: as above.
    let packets = packets.iter().map(|packet| (unsafe { packet.bytes() }, packet.length));
    join.plan(
        rules,
        packets,
        // SAFETY: each packet is in one group, so that there are no more places than packets.
        |place, packet| unsafe { order.add(place.into()).write(packet) },
        // SAFETY: each group has a packet, so that there are no more groups than packets.
        |index, group| unsafe { groups.add(index.into()).write(group) },
    )
}

/// Writes the frame of a group.
///
/// # Safety
/// `packets` and `order` have `count` elements, all packets their bytes, and `out` has `room` bytes, apart from all of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paflow_write(
    rules: &PortRules,
    group: &Group,
    packets: *const Packet,
    order: *const u16,
    count: u16,
    out: *mut u8,
    room: usize,
) -> usize {
    let count = count.into();
    // SAFETY: the caller passes as much, and neither changes the one nor reads the other during the call.
    let (packets, order, out) =
        unsafe { (from_raw_parts(packets, count), from_raw_parts(order, count), from_raw_parts_mut(out, room)) };
    let first = usize::from(group.first);
    let Some(members) = order.get(first..first + usize::from(group.count)) else { return 0 };
    // SAFETY: as above.
    let members = members.iter().filter_map(|&index| Some(unsafe { packets.get(usize::from(index))?.bytes() }));
    write(rules, group.next_hop, members, out).unwrap_or(0)
}
