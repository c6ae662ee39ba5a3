//! Keys, by which packets are told apart: [`Offsets`] finds the headers that a [`Key`] is taken from, a [`RawKey`] is made of their
//! bytes alone, and a [`Cache`] keeps results by either.

mod cache;
mod extension_headers;
mod key;
mod offsets;
mod raw_key;

pub use cache::{Cache, CacheKey};
pub(crate) use extension_headers::skip;
pub use key::{HEADER_BYTES, Key};
pub(crate) use key::{NEIGHBOUR, TRANSPORT_PRESENT, VLAN_PRESENT};
pub(crate) use offsets::{NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION, Offsets, SNAP_LEN};
pub use raw_key::{RAW_BYTES, RawKey};
