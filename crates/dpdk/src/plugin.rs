//! The plugin: a library that is found, opened and checked at run time. The program itself is built without DPDK.

use crate::abi::{ABI, Table};
use crate::eal::{Dpdk, Options};
use crate::error::{Error, Result};
use std::env;
use std::ffi::{CStr, CString};
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// File name of the plugin.
const FILE: &str = "libmillrace_dpdk.so";

/// Variable with the plugin's path.
const VARIABLE: &str = "MILLRACE_DPDK_PLUGIN";

/// The plugin, opened and not started. It stays loaded until the process ends.
pub struct Plugin {
    table: &'static Table,
}

impl Plugin {
    /// Returns where the plugin is looked for: at the path that the variable `MILLRACE_DPDK_PLUGIN` has, or else beside the program, or
    /// in `../lib/millrace`, where packages have it.
    pub fn path() -> PathBuf {
        let path = env::var_os(VARIABLE).map(PathBuf::from).or_else(|| Some(near(&env::current_exe().ok()?)));
        path.unwrap_or_else(|| FILE.into())
    }

    /// Opens the plugin at [`Plugin::path`].
    pub fn find() -> Result<Plugin> {
        Plugin::open(&Plugin::path())
    }

    /// Opens the plugin at `path`.
    pub fn open(path: &Path) -> Result<Plugin> {
        let path = path.canonicalize().map_err(|_| Error::Missing { path: path.to_owned() })?;
        let load = |reason: String| Error::Load { path: path.clone(), reason };
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| load("its path has a byte of zero".into()))?;
        // SAFETY: this runs initialisers of the plugin and of DPDK's libraries, which only register themselves.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(load(said()));
        }
        // SAFETY: the library is open, and stays so.
        let symbol = unsafe { libc::dlsym(library, c"millrace_dpdk".as_ptr()) };
        if symbol.is_null() {
            return Err(load(said()));
        }
        // SAFETY: `dpdk/port/port.h` declares the function, and no other library has one of this name.
        let table = unsafe {
            let table: unsafe extern "C" fn() -> *const Table = mem::transmute(symbol);
            table()
        };
        // SAFETY: each version of the table begins with its number.
        let found = unsafe { (&raw const (*table).abi).read() };
        if found != ABI {
            return Err(Error::Abi { path, found, needed: ABI });
        }
        // SAFETY: it is a constant of a library that stays open, and has the form of this version.
        Ok(Plugin { table: unsafe { &*table } })
    }

    /// Starts DPDK, which a process can do once. Its devices are probed later, but for what `options` says.
    ///
    /// The calling thread stays on the processors that it had.
    pub fn start(self, options: &Options) -> Result<Dpdk> {
        Dpdk::start(self.table, options)
    }
}

/// Returns the plugin's path for this program.
fn near(program: &Path) -> PathBuf {
    let beside = program.with_file_name(FILE);
    let installed = program.parent().and_then(Path::parent).map(|prefix| prefix.join("lib/millrace").join(FILE));
    installed.filter(|installed| installed.exists() && !beside.exists()).unwrap_or(beside)
}

/// Returns what the loader says.
fn said() -> String {
    // SAFETY: it returns a string of this thread, or null.
    let said = unsafe { libc::dlerror() };
    if said.is_null() {
        return "the loader does not say why".into();
    }
    // SAFETY: as above; it is valid until the next call.
    unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_plugin_is_beside_the_program_or_where_packages_have_it() {
        let prefix = tempfile::tempdir().unwrap();
        let [bin, lib] = ["bin", "lib/millrace"].map(|name| prefix.path().join(name));
        [&bin, &lib].into_iter().for_each(|directory| fs::create_dir_all(directory).unwrap());
        let program = bin.join("millrace");
        // The first place is the one to name if there is none.
        assert_eq!(near(&program), bin.join(FILE));
        fs::write(lib.join(FILE), "").unwrap();
        assert_eq!(near(&program), lib.join(FILE));
        fs::write(bin.join(FILE), "").unwrap();
        assert_eq!(near(&program), bin.join(FILE));
    }
}
