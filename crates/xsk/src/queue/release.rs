//! Making sure that a queue is released.

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::param::page_size;

use super::config::{Bound, Mode, QueueConfig};
use super::open::open;
use crate::{Chunks, Error, Interface, Result, Umem};

impl Bound {
    /// Waits until the queue is nobody's, after its halves were dropped; fails if that takes longer than this.
    ///
    /// Closing a socket only starts this in the kernel. Once this has returned, the driver has given back what it held:
    /// in zero-copy mode, nothing is written to the memory any more, and it may be put to another use. In copy mode that
    /// holds as soon as the halves are dropped. To be called in the network namespace in which the queue was opened.
    pub fn wait_released(&self, timeout: Duration) -> Result<()> {
        // The kernel lets another socket have the queue only after the driver has let go of it (`xp_clear_dev`). In copy
        // mode the driver is not asked for anything.
        let config = QueueConfig {
            mode: Mode::Copy,
            fill: 1,
            rx: 1,
            tx: 1,
            completion: 1,
            busy_wait: timeout,
            ..<_>::default()
        };
        let interface = Interface { name: self.interface.clone(), index: self.index, queues: u32::MAX };
        match open(&scratch(&self.interface)?, &interface, self.queue, &config) {
            // It is gone, and its queues with it.
            Ok(_) | Err(Error::NoInterface { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// A page of memory that is good for nothing but to bind a socket.
fn scratch(interface: &str) -> Result<Arc<Umem>> {
    struct Page(NonNull<u8>);

    // SAFETY: the page belongs to the process, not to a thread, and nobody looks into it.
    unsafe impl Send for Page {}
    // SAFETY: as above.
    unsafe impl Sync for Page {}

    impl Drop for Page {
        fn drop(&mut self) {
            // SAFETY: this value owns the mapping, and is held by who uses it.
            let unmapped = unsafe { munmap(self.0.as_ptr().cast(), page_size()) };
            debug_assert!(unmapped.is_ok());
        }
    }

    let failed = Error::system(interface, "wait for the release of a queue", "check the memory limits of the process");
    // SAFETY: a new mapping takes no memory away from anybody.
    let page =
        unsafe { mmap_anonymous(ptr::null_mut(), page_size(), ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
    let base = NonNull::new(page.map_err(failed)?.cast()).expect("a mapping does not start at zero");
    // SAFETY: mapped as long as the owner lives; no reference to it is ever made.
    unsafe { Umem::new(base, page_size(), Vec::new(), Chunks::aligned(2048), Arc::new(Page(base))) }
}
