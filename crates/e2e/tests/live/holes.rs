//! Guests with memory that does not exist, or vanishes, next to two honest guests.

use super::sessions::frontend;
use e2e::Home;
use e2e::live::Live;
use e2e::virtio::Options;
use e2e::virtio::rogue::{BUFFERS, LENGTH, Rogue, START};
use lab::millrace::config::*;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, fstat, ftruncate, memfd_create};
use std::time::Duration;
use vhost::{VhostBackend, VhostUserMemoryRegionInfo};

/// Returns a vhost-user port `a` that treats holes like this, and a patch to `b`.
fn port_with(holes: HolesKey) -> impl Part {
    let keys = VhostUser { socket: "a.sock".into(), holes: holes.into(), ..VhostUser::default() };
    (port("a", keys), vhost_user("b"), patch("a", "b"))
}

/// Bytes of a file that exist.
fn existing(file: &OwnedFd) -> u64 {
    fstat(file).unwrap().st_blocks as u64 * 512
}

/// Shares this much untouched memory at port `a`; reports whether the switch takes it.
fn is_taken(home: &Home, length: u64) -> bool {
    let frontend = frontend(home);
    let file = memfd_create("sparse", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, length).unwrap();
    let region = VhostUserMemoryRegionInfo {
        guest_phys_addr: START,
        memory_size: length,
        userspace_addr: START,
        mmap_offset: 0,
        mmap_handle: file.as_raw_fd(),
    };
    // The switch may have hung up before all is written.
    frontend.set_mem_table(&[region]).is_ok() && frontend.get_features().is_ok()
}

#[test]
fn a_hole_ends_the_session_of_its_guest_only() {
    let mut live = Live::new(patched("a", "b"));
    let mut b = Options::new(live.home.socket("b")).connect().unwrap();
    let mark = live.millrace.daemon.log().mark();
    live.during(|attack| {
        while attack.continues() {
            let mut rogue = Rogue::connect(&live.home);
            assert!(rogue.is_connected(), "the switch has answered: it has all of the memory");
            rogue.blast(&mut b, Duration::from_millis(5));
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let (from, to) = (BUFFERS - START, LENGTH);
            fallocate(&*rogue.file, punch, from, to - from).unwrap();
            while rogue.is_connected() {
                rogue.blast(&mut b, Duration::from_millis(1));
            }
            assert!(existing(&rogue.file) <= from, "the switch has allocated pages");
            attack.strike();
        }
    });
    live.millrace.wait_said(mark, "its file shrank, or got a hole");
    live.finish();
}

#[test]
fn untouched_memory_is_allocated_within_limits() {
    let mut live = Live::new(patched("a", "b"));
    let mark = live.millrace.daemon.log().mark();
    live.during(|attack| {
        while attack.continues() {
            assert!(!is_taken(&live.home, 1 << 39), "half of the machine's memory is less");
            attack.strike();
        }
    });
    live.millrace.wait_said(mark, "of its memory do not exist yet, and the switch may allocate");
    let rogue = Rogue::connect(&live.home);
    live.millrace.wait_up(&["a"]);
    assert_eq!(existing(&rogue.file), LENGTH);
    live.finish();
}

#[test]
fn holes_are_refused_or_left_alone_as_the_port_says() {
    let mut live = Live::new(port_with(HolesKey::Refuse));
    let mark = live.millrace.daemon.log().mark();
    assert!(!is_taken(&live.home, LENGTH));
    live.millrace
        .wait_said(mark, "not all of its memory exists (2 MiB may be missing), and the port has holes = \"refuse\"");
    live.finish();

    live = Live::new(port_with(HolesKey::Allow));
    let rogue = Rogue::connect(&live.home);
    live.millrace.wait_up(&["a"]);
    assert!(existing(&rogue.file) < LENGTH);
    live.finish();
}

/// The guest, which may have holes, shares as much empty memory as a guest may have, and then more. The next guest still has room.
#[test]
fn memory_as_large_as_address_spaces() {
    const REGION: u64 = 1 << 37;
    let live = Live::new(port_with(HolesKey::Allow));
    let file: OwnedFd = memfd_create("giant", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, REGION).unwrap();
    let region = |number: u64| VhostUserMemoryRegionInfo {
        guest_phys_addr: number * REGION,
        memory_size: REGION,
        userspace_addr: number * REGION,
        mmap_offset: 0,
        mmap_handle: file.as_raw_fd(),
    };
    let table = |regions: u64| (0..regions).map(region).collect::<Vec<_>>();
    live.during(|attack| {
        while attack.continues() {
            let frontend = frontend(&live.home);
            frontend.set_mem_table(&table(8)).unwrap();
            frontend.get_features().unwrap();
            let guest = Options::new(live.home.socket("b")).connect().unwrap();
            live.millrace.wait_up(&["b"]);
            drop(guest);
            live.millrace.wait_down("b");
            let _ = frontend.set_mem_table(&table(9));
            assert!(frontend.get_features().is_err(), "that is too much");
            attack.strike();
        }
    });
    live.finish();
}
