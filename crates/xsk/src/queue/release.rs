//! Waiting for the release of a queue.

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::param::page_size;

use super::config::{Bound, Mode, QueueConfig};
use super::open::open;
use crate::{Chunks, Error, Interface, Result, Umem};

impl Bound {
    /// Waits until the queue is free after its halves were dropped; fails if that takes longer than `timeout`.
    ///
    /// Closing a socket only starts the release in the kernel. Once this has returned, the driver has returned all its
    /// chunks: in zero-copy mode, nothing is written to the memory any more, and it may be reused. In copy mode that
    /// holds as soon as the halves are dropped. Must be called in the network namespace in which the queue was opened.
    pub fn wait_released(&self, timeout: Duration) -> Result<()> {
        // The kernel lets another socket bind the queue only after the driver has released it (`xp_clear_dev`). Copy
        // mode requests nothing from the driver.
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
            // The interface is gone, and its queues with it.
            Ok(_) | Err(Error::NoInterface { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Returns a page of memory that serves only to bind a socket.
fn scratch(interface: &str) -> Result<Arc<Umem>> {
    struct Page(NonNull<u8>);

    // SAFETY: the page belongs to the process, not to a thread, and nothing accesses its content.
    unsafe impl Send for Page {}
    // SAFETY: as above.
    unsafe impl Sync for Page {}

    impl Drop for Page {
        fn drop(&mut self) {
            // SAFETY: this value owns the mapping, and every user of the page holds this value.
            let unmapped = unsafe { munmap(self.0.as_ptr().cast(), page_size()) };
            debug_assert!(unmapped.is_ok());
        }
    }

    let failed = Error::system(interface, "wait for the release of a queue", "check the memory limits of the process");
    // SAFETY: a new mapping overlaps nothing that exists.
    let page =
        unsafe { mmap_anonymous(ptr::null_mut(), page_size(), ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
    let base = NonNull::new(page.map_err(failed)?.cast()).expect("a mapping does not start at zero");
    // SAFETY: mapped as long as the owner lives; no reference to it is ever made.
    unsafe { Umem::new(base, page_size(), Vec::new(), Chunks::aligned(2048), Arc::new(Page(base))) }
}
