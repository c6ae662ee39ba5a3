//! Requests to an interface by name, for operations that only ioctls offer.

use std::mem;

/// Returns an ioctl request for the interface `name`. Truncates a name that does not fit.
pub(crate) fn request(name: &str) -> libc::ifreq {
    // SAFETY: ifreq is integers, arrays of them and (in its union) a pointer: all zero is a valid value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // One byte less than the field, so that the name stays terminated.
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}
