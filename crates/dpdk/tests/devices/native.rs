//! Functions of tests in C, which use DPDK as drivers do.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

/// A library that stays loaded.
pub struct Library(*mut c_void);

impl Library {
    /// Builds a file of this directory with these of DPDK's libraries, and loads it, once DPDK's own are loaded.
    pub fn built(file: &str, libraries: &str) -> Library {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/devices").join(file);
        let directory = tempfile::tempdir().unwrap();
        let library = directory.path().join("native.so");
        let script = format!("cc -shared -fPIC -Wall -Werror $(pkg-config --cflags libdpdk) -o $0 $1 {libraries}");
        assert!(Command::new("sh").args(["-c", &script]).args([&library, &source]).status().unwrap().success());
        let path = CString::new(library.as_os_str().as_bytes()).unwrap();
        // SAFETY: the library has no initialisers.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null());
        Library(handle)
    }

    /// Returns a function's address.
    pub fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the library is open, and stays so.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!symbol.is_null());
        symbol
    }
}
