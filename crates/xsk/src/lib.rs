//! `AF_XDP` sockets over memory that the caller brings.
//!
//! Ground floor: this crate lends memory to a network interface's queue and says where frames have landed. Whose memory
//! that is, and what the frames are for, it does not know. It is the only crate that calls bpf(2) and maps the rings of
//! `AF_XDP` sockets.
//!
//! - [`Umem`]: a range of memory, kept alive by its owner, cut into chunks as [`Chunks`] says; and the arithmetic of
//!   addresses: where to fill so that a frame lands at a wanted byte.
//! - [`Queue`]: a socket bound to one queue of an interface. It comes apart into four halves that go to any thread:
//!   [`Fill`], [`Rx`], [`Tx`], [`Completion`].
//! - [`Redirect`]: the XDP program that brings frames to the sockets, for all destinations or some.
//! - [`Interface`]: what the caller has to know about the interface.
//!
//! # The way of a frame
//!
//! Addresses are offsets into the [`Umem`]. [`Fill::push`] lends chunks to the kernel, [`Rx::burst`] returns those with a
//! frame in them. [`Tx::push`] asks for frames to be sent from where they lie, [`Completion::pop`] says which are done
//! with. Nothing on these paths allocates or calls the kernel; what needs a system call is a method named `wake`.
//!
//! # Opening
//!
//! Attach the [`Redirect`] first (drivers rebuild their queues for it), then open queues, then insert them into it. All
//! of it happens in the network namespace of the calling thread, and stays there.
//!
//! ```no_run
//! # use std::{ptr::NonNull, sync::Arc};
//! # use xsk::*;
//! # fn of(base: NonNull<u8>, len: usize, owner: Arc<dyn Send + Sync>, buffers: Vec<u64>) -> Result<()> {
//! let interface = Interface { name: "eth0".into(), index: 2, queues: 1 };
//! let redirect = Redirect::attach(&interface, &RedirectConfig::default())?;
//! // Buffers of 1536 bytes anywhere, with 12 bytes for a header before the frame.
//! let chunks = Chunks::limited(2048, 1524).expect("fits");
//! // SAFETY: `owner` keeps the memory mapped, and no references are made to it.
//! let umem = unsafe { Umem::new(base, len, vec![], chunks, owner)? };
//! let mut queue = Queue::open(&umem, &interface, 0, &QueueConfig::default())?;
//! redirect.insert(&queue.rx)?;
//!
//! let zero_copy = queue.bound().zero_copy;
//! let fill = buffers.iter().filter_map(|buffer| umem.fill_address(buffer + 12));
//! queue.fill.push_from(fill.filter(|&address| umem.accepts(address, zero_copy)));
//! for frame in queue.rx.burst(32) {
//!     println!("{} bytes at {}", frame.len, umem.frame_address(frame.address));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Releasing
//!
//! A queue is free again once all four halves are gone, whichever thread dropped them. The kernel finishes this a little
//! later: the next to open that queue waits for [`QueueConfig::busy_wait`]. Until then a driver in zero-copy mode may
//! still write frames to chunks that were filled, so memory must not be put to another use in that time:
//! [`Bound::wait_released`] returns when it is over.

mod error;
mod interface;
mod queue;
mod redirect;
mod ring;
mod umem;

pub use error::{Error, Result};
pub use interface::Interface;
pub use queue::{Bound, Completion, Fill, Mode, Monitor, Queue, QueueConfig, Rx, Sending, Statistics, Tx};
pub use redirect::{Attach, Attached, Groups, Redirect, RedirectConfig, Steering};
pub use ring::{Burst, Descriptor};
pub use umem::{Area, Chunks, Umem};
