//! `AF_XDP` sockets over memory provided by the caller.
//!
//! This crate lends memory to an interface's queue and reports where frames have landed. It does not know the owner of that
//! memory or the purpose of the frames. It is the only crate that calls bpf(2) and maps the rings of `AF_XDP` sockets.
//!
//! - [`Umem`]: a range of memory, kept alive by its owner and cut into [`Chunks`]; it also computes the address to fill
//!   so that a frame lands at a given byte.
//! - [`Queue`]: a socket bound to one queue of an interface. It splits into four halves that any thread may use:
//!   [`Fill`], [`Rx`], [`Tx`], [`Completion`].
//! - [`Redirect`]: the XDP program that redirects frames to the sockets, for all destinations or some.
//! - [`Interface`]: the caller's description of the interface.
//!
//! # Frame life cycle
//!
//! Addresses are offsets into the [`Umem`]. [`Fill::push`] lends chunks to the kernel, and [`Rx::burst`] returns those with a
//! frame in them. [`Tx::push`] sends frames from where they lie, and [`Completion::pop`] returns those that the kernel is
//! done with. Nothing on these paths allocates or calls the kernel; methods that make a system call are named `wake`.
//!
//! # Opening
//!
//! Attach the [`Redirect`] first (drivers rebuild their queues for it), then open queues, then insert them into it. All of it
//! happens in the network namespace of the calling thread, and stays there.
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
//! A queue is free again once all four halves are dropped, by any thread. The kernel finishes the release a little later: the
//! next socket for that queue waits for it, up to [`QueueConfig::busy_wait`]. Until then a driver in zero-copy mode may still
//! write frames to filled chunks, so the memory must not be reused: [`Bound::wait_released`] returns when the release is
//! complete.

mod error;
mod interface;
mod queue;
mod redirect;
mod ring;
mod umem;

pub use error::{Error, Result};
pub use interface::Interface;
#[cfg(feature = "analysis")]
pub use queue::Kernel;
pub use queue::{Bound, Completion, Fill, Mode, Monitor, Queue, QueueConfig, Rx, Sending, Statistics, Tx};
pub use redirect::{Attach, Attached, Groups, Redirect, RedirectConfig, Steering};
pub use ring::{Descriptor, RingBurst};
pub use umem::{Area, Chunks, Umem};
