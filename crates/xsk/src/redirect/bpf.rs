//! The bpf(2) calls, one function each. The attributes are laid out as in linux/bpf.h up to the last field in use; the
//! kernel treats missing fields at the end as zero.

use std::ffi::CStr;
use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::assembler::Instruction;

// `enum bpf_cmd`.
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const MAP_DELETE_ELEM: libc::c_long = 3;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const LINK_UPDATE: libc::c_long = 29;
const LINK_DETACH: libc::c_long = 34;

/// `BPF_MAP_TYPE_XSKMAP`.
const XSKMAP: u32 = 17;
/// `BPF_PROG_TYPE_XDP`.
const PROG_TYPE_XDP: u32 = 6;
/// `BPF_XDP` of `enum bpf_attach_type`.
const ATTACH_XDP: u32 = 37;
/// `BPF_F_XDP_DEV_BOUND_ONLY` (Linux 6.3).
const DEVICE_BOUND: u32 = 1 << 6;
/// `BPF_F_XDP_HAS_FRAGS`.
const HAS_FRAGS: u32 = 1 << 5;

/// Link modes: `XDP_FLAGS_SKB_MODE` and `XDP_FLAGS_DRV_MODE` of linux/if_link.h.
pub(super) const GENERIC: u32 = 1 << 1;
pub(super) const NATIVE: u32 = 1 << 2;

/// Calls bpf(2).
///
/// # Safety
/// `A` must be the attributes of the command, without padding, and the targets of its pointers must be valid for the
/// command's accesses to them.
unsafe fn bpf<A>(command: libc::c_long, attributes: &A) -> io::Result<i32> {
    let size = size_of_val(attributes) as libc::c_long;
    // SAFETY: the kernel reads `size` bytes of attributes, which live until the call returns; the caller guarantees the rest.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// Works as [`bpf`], for commands that return a file descriptor, which the kernel opens close-on-exec.
///
/// # Safety
/// As for [`bpf`], and the command returns a new file descriptor.
unsafe fn bpf_open<A>(command: libc::c_long, attributes: &A) -> io::Result<OwnedFd> {
    // SAFETY: as the caller guarantees.
    let fd = unsafe { bpf(command, attributes)? };
    // SAFETY: the caller guarantees that this is a new file descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn name(name: &CStr) -> [u8; 16] {
    let mut field = [0; 16];
    // One byte less than the field, so that it stays terminated.
    for (to, &from) in field[..15].iter_mut().zip(name.to_bytes()) {
        *to = from;
    }
    field
}

/// Creates a map from queue to socket.
pub(super) fn create_socket_map(queues: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        map_flags: u32,
        inner_map_fd: u32,
        numa_node: u32,
        map_name: [u8; 16],
    }
    let attributes = Attributes {
        map_type: XSKMAP,
        key_size: 4,
        value_size: 4,
        max_entries: queues,
        map_flags: 0,
        inner_map_fd: 0,
        numa_node: 0,
        map_name: name(c"millrace_xsk"),
    };
    // SAFETY: these are the attributes of BPF_MAP_CREATE, without pointers; it returns a new file descriptor.
    unsafe { bpf_open(MAP_CREATE, &attributes) }
}

#[repr(C)]
struct ElementAttributes {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn element(map: &OwnedFd, key: &u32, value: Option<&u32>) -> ElementAttributes {
    let pointer = |word: &u32| std::ptr::from_ref(word).expose_provenance() as u64;
    ElementAttributes {
        map_fd: map.as_raw_fd().cast_unsigned(),
        padding: 0,
        key: pointer(key),
        value: value.map_or(0, pointer),
        flags: 0,
    }
}

/// Puts a socket into a map, replacing any previous one.
pub(super) fn insert(map: &OwnedFd, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    let fd = socket.as_raw_fd().cast_unsigned();
    // SAFETY: these are the attributes of BPF_MAP_UPDATE_ELEM; key and value are as long as the map was created with,
    // and live until the call returns.
    unsafe { bpf(MAP_UPDATE_ELEM, &element(map, &queue, Some(&fd))) }.map(drop)
}

pub(super) fn remove(map: &OwnedFd, queue: u32) -> io::Result<()> {
    // SAFETY: these are the attributes of BPF_MAP_DELETE_ELEM; the key is as long as the map was created with, and lives
    // until the call returns.
    unsafe { bpf(MAP_DELETE_ELEM, &element(map, &queue, None)) }.map(drop)
}

/// Kind of an XDP program.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProgramKind {
    /// It supports frames in several parts.
    pub(super) multi_buffer: bool,
    /// The interface, by index, that it can be attached to, natively only: it reads metadata that the driver keeps beside a
    /// frame.
    pub(super) bound_to: Option<u32>,
}

/// Loads an XDP program. The verifier writes its messages to `log`, unless it is empty.
pub(super) fn load_program(code: &[Instruction], kind: ProgramKind, log: &mut [u8]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        prog_type: u32,
        insn_cnt: u32,
        insns: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log_buf: u64,
        kern_version: u32,
        prog_flags: u32,
        prog_name: [u8; 16],
        prog_ifindex: u32,
        expected_attach_type: u32,
    }
    let attributes = Attributes {
        prog_type: PROG_TYPE_XDP,
        insn_cnt: code.len() as u32,
        insns: code.as_ptr().expose_provenance() as u64,
        // The kernel's name for the terms of MIT: by these the program may also be used under the GPL, which some functions ask for.
        license: c"Dual MIT/GPL".as_ptr().expose_provenance() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log_buf: if log.is_empty() { 0 } else { log.as_mut_ptr().expose_provenance() as u64 },
        kern_version: 0,
        prog_flags: if kind.multi_buffer { HAS_FRAGS } else { 0 }
            | if kind.bound_to.is_some() { DEVICE_BOUND } else { 0 },
        prog_name: name(c"millrace_xdp"),
        prog_ifindex: kind.bound_to.unwrap_or(0),
        expected_attach_type: ATTACH_XDP,
    };
    // SAFETY: these are the attributes of BPF_PROG_LOAD; code, license and log live until the call returns, and only the
    // log is written, to its length. It returns a new file descriptor.
    unsafe { bpf_open(PROG_LOAD, &attributes) }
}

/// Attaches a program to an interface until the link is closed or detached.
pub(super) fn link(program: BorrowedFd<'_>, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        prog_fd: u32,
        target_ifindex: u32,
        attach_type: u32,
        flags: u32,
    }
    let prog_fd = program.as_raw_fd().cast_unsigned();
    let attributes = Attributes { prog_fd, target_ifindex: interface, attach_type: ATTACH_XDP, flags };
    // SAFETY: these are the attributes of BPF_LINK_CREATE, without pointers; it returns a new file descriptor.
    unsafe { bpf_open(LINK_CREATE, &attributes) }
}

/// Replaces the attached program by another one.
pub(super) fn update_link(link: &OwnedFd, program: BorrowedFd<'_>) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        link_fd: u32,
        new_prog_fd: u32,
        flags: u32,
        old_prog_fd: u32,
    }
    let fd = |fd: BorrowedFd<'_>| fd.as_raw_fd().cast_unsigned();
    let attributes = Attributes { link_fd: fd(link.as_fd()), new_prog_fd: fd(program), flags: 0, old_prog_fd: 0 };
    // SAFETY: these are the attributes of BPF_LINK_UPDATE, without pointers.
    unsafe { bpf(LINK_UPDATE, &attributes) }.map(drop)
}

/// Detaches the program now, even if other processes hold the link.
pub(super) fn detach(link: &OwnedFd) -> io::Result<()> {
    let link_fd = link.as_raw_fd().cast_unsigned();
    // SAFETY: this is the attribute of BPF_LINK_DETACH, without pointers.
    unsafe { bpf(LINK_DETACH, &link_fd) }.map(drop)
}
