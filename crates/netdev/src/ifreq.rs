//! Requests to an interface by name, for what only ioctls can do.

use std::mem;

/// An ioctl request for the interface `name`. What does not fit into the field is cut.
pub(crate) fn request(name: &str) -> libc::ifreq {
    // SAFETY: ifreq is integers, arrays of them and (in its union) a pointer: all zero is a valid value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // One byte less than the field, so that the name stays terminated.
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request
}
