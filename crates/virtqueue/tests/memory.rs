//! Limits on the resources that guests can take by sharing memory. Each test counts those of all guests together, so
//! the tests run one at a time.
#![allow(missing_docs)]
#![cfg(not(miri))]

use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::sync::{Arc, Mutex};
use virtqueue::memory::{MAX_GUEST, MAX_REGIONS, Memory, MemoryError, Region, Span};

static ALONE: Mutex<()> = Mutex::new(());

fn memfd(len: u64) -> Arc<OwnedFd> {
    let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, len).unwrap();
    Arc::new(file)
}

/// Maps `len` bytes for a guest, all of them sparse.
fn sparse(len: u64) -> Result<Memory, MemoryError> {
    Memory::map(vec![Region { guest_addr: 0, user_addr: 0, len, offset: 0, file: memfd(len) }])
}

#[test]
fn only_files_of_memory_are_memory() {
    let is_memory =
        |file: OwnedFd| Region { guest_addr: 0, user_addr: 0, len: 4096, offset: 0, file: Arc::new(file) }.is_memory();
    assert!(is_memory(memfd_create("test", MemfdFlags::CLOEXEC).unwrap()));
    assert!(is_memory(memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB).unwrap()));
    let shared = std::path::Path::new("/dev/shm").join(format!("millrace-{}", std::process::id()));
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(&shared).unwrap();
    std::fs::remove_file(&shared).unwrap();
    assert!(is_memory(file.into()), "a tmpfs");
    assert!(!is_memory(std::fs::File::open(std::env::current_exe().unwrap()).unwrap().into()), "a disk's file");
    assert!(!is_memory(std::fs::File::open("/proc/self/maps").unwrap().into()));
    assert!(!is_memory(std::fs::File::open("/dev/zero").unwrap().into()));
    assert!(!is_memory(rustix::pipe::pipe().unwrap().0));
}

#[test]
fn one_guest_and_all_guests_have_bounds_and_the_process_goes_on() {
    let _alone = ALONE.lock().unwrap();
    assert!(matches!(sparse(MAX_GUEST + 4096), Err(MemoryError::TooLarge { .. })));
    let mut guests = Vec::new();
    let refused = loop {
        match sparse(MAX_GUEST) {
            Ok(guest) => guests.push(guest),
            Err(refused) => break refused,
        }
        assert!(guests.len() < 128, "all addresses that a process has");
    };
    assert!(matches!(refused, MemoryError::NoAddresses { .. }), "{refused}");
    assert!(guests.len() >= 32, "{} guests of the largest size", guests.len());
    std::thread::spawn(|| vec![1u8; 256 << 20].len()).join().unwrap();
    // A second mapping of the same memory counts as well.
    let last = Arc::new(guests.pop().unwrap());
    let span = Span::new(std::slice::from_ref(&last)).map(|_| ());
    assert!(matches!(span, Err(MemoryError::NoAddresses { .. })), "{span:?}");
    drop(last);
    sparse(1 << 30).expect("there is room for an honest guest again");
    guests.clear();
    sparse(MAX_GUEST).expect("everything came back");
}

#[test]
fn memory_that_cannot_be_watched_is_refused() {
    let _alone = ALONE.lock().unwrap();
    let file = memfd(4096);
    // Gaps between the regions, so that each is a separate mapping.
    let region = |at: usize| Region {
        guest_addr: 2 * 4096 * at as u64,
        user_addr: 2 * 4096 * at as u64,
        len: 4096,
        offset: 0,
        file: file.clone(),
    };
    let mut guests = Vec::new();
    let refused = loop {
        match Memory::map((0..MAX_REGIONS).map(region).collect()) {
            Ok(guest) => guests.push(guest),
            Err(refused) => break refused,
        }
        assert!(guests.len() < 1000, "more than the kernel maps");
    };
    assert!(matches!(refused, MemoryError::Unwatched), "{refused}");
    assert!(guests.len() > 16, "{} guests of {MAX_REGIONS} regions", guests.len());
    let last = guests.last().unwrap();
    let page = last.translate(0, 1).unwrap();
    ftruncate(&*file, 0).unwrap();
    // SAFETY: mapped; the file behind it is gone, which the watch handles.
    assert_eq!(unsafe { page.as_ptr().read_volatile() }, 0);
    assert!(last.is_broken());
    guests.clear();
    sparse(4096).expect("there is room again");
}
