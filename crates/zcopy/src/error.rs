//! Errors.

use std::io;
use std::path::PathBuf;

/// Why pages can't be allocated or exchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such device.
    #[error("opening {}: {source}; load the module zcopy, and give this user access to it", path.display())]
    Device {
        /// The device's file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Pages of this kernel have another size.
    #[error("pages of this kernel have {0} bytes; the exchange supports pages of {size} bytes", size = crate::PAGE)]
    PageSize(usize),
    /// A descriptor is of something else.
    #[error("the descriptor is not one of /dev/zcopy")]
    NotAnArea,
    /// An area has no pages yet.
    #[error("the area has no pages; give it some before it is shared")]
    NoPages,
    /// An area of this size can't be allocated.
    #[error("allocating {pages} pages: {source}; the module's parameter max_pages and the cgroup limit them")]
    Size {
        /// Pages that were asked for.
        pages: u32,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A part of an area can't be mapped.
    #[error("mapping {pages} pages of an area: {source}")]
    Map {
        /// Pages to map.
        pages: u32,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A call has more pairs than the kernel takes.
    #[error("{0} pairs are too many; split them into calls of at most {max}", max = crate::MAX_PAIRS)]
    TooMany(usize),
    /// A call names pages that do not exist.
    #[error("a page lies beyond its area, is named twice, or its frame does not fit; nothing was exchanged")]
    Wrong,
    /// The kernel refused a call.
    #[error("the module refused: {0}")]
    Refused(io::Error),
}
