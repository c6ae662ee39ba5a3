//! Exchange of pages between isolated guests, by the kernel module of `kmod/zcopy`.
//!
//! Each guest takes its packet buffers from an [`Area`], memory of `/dev/zcopy` that it shares with the switch and with nobody
//! else. The switch has the descriptors of all areas, and exchanges a page with a frame for an empty one of the receiver.
//! docs/zcopy.md has the contract: the right to exchange, and the bytes that each side gets.
//!
//! ```no_run
//! use zcopy::{Device, Leftovers, Pair};
//! # fn main() -> Result<(), zcopy::Error> {
//! let device = Device::find("/dev/zcopy")?;
//! let a = device.create(1024, Leftovers::Zeroed)?;
//! let b = device.create(1024, Leftovers::Zeroed)?;
//! // A frame in page 7 of `a` goes to page 3 of `b`.
//! let outcome = a.exchange(&b, &[Pair { here: 7, there: 3, start: 0, len: 1518 }])?;
//! assert_eq!(outcome.exchanged(), 1);
//! # Ok(())
//! # }
//! ```
#![deny(missing_docs)]

mod abi;
mod area;
mod device;
mod error;
mod mapping;
mod trial;

pub use abi::{MAX_PAIRS, Pair, Stats};
pub use area::{Area, Outcome};
pub use device::{Device, Leftovers};
pub use error::Error;
pub use mapping::Mapping;
pub use trial::threshold;

/// Size of a page, in bytes.
pub const PAGE: usize = 4096;
