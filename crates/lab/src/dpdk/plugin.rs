//! Libraries in C that are loaded at run time: drivers for DPDK, and the plugin that brings DPDK to Millrace.

use crate::error::output_of;
use crate::{Error, Result};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Permission for all users to write.
const OTHERS_WRITE: u32 = 0o002;

/// Returns the path of a driver of the installed DPDK, such as `net_e1000`, from where DPDK loads it.
pub fn installed(driver: &str) -> Result<PathBuf> {
    let library = format!("librte_{driver}.so");
    let entries = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let directories = entries("/usr/lib".as_ref()).flat_map(|architecture| entries(&architecture.join("dpdk")));
    let found = directories.map(|drivers| drivers.join(&library)).find(|path| path.exists());
    found.ok_or_else(|| Error::malformed("the installed DPDK", format!("it has no driver {driver}")))
}

/// Builds what is in `folder` of the workspace's `dpdk` by make, beside the programs in `programs`. Returns the path of `file`, which
/// that makes.
pub fn built(folder: &str, file: &str, programs: &Path) -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dpdk").join(folder);
    let failed = || Error::io(format!("making {file} in {}", programs.display()));
    fs::create_dir_all(programs).map_err(failed())?;
    let programs = programs.canonicalize().map_err(failed())?;
    let target = programs.parent().unwrap_or(&programs);
    // Another test may build it at the same time.
    let lock = File::create(target.join(format!("{folder}.lock"))).map_err(failed())?;
    lock.lock().map_err(failed())?;
    let profile = if programs.ends_with("release") { "release" } else { "dev" };
    let mut make = Command::new("make");
    make.args(["--silent", "--directory"]).arg(source).args([&format!("PROFILE={profile}"), "CFLAGS=-O3 -Werror"]);
    output_of(make.env("CARGO_TARGET_DIR", target))?;
    Ok(programs.join(file))
}

/// Returns the folder of the programs of a running test's build: it is in `deps` of that.
pub fn programs() -> Result<PathBuf> {
    let test = std::env::current_exe().map_err(Error::io("looking for the test's own program"))?;
    Ok(test.ancestors().nth(2).unwrap_or(&test).to_owned())
}

/// Returns a path from which DPDK loads a driver. It refuses one beneath a directory that all users may write to, such as
/// /tmp: the path is then that of a copy in the user's cache.
pub fn accepted(driver: &Path) -> Result<PathBuf> {
    let driver = driver.canonicalize().map_err(Error::io(format!("looking for the driver {}", driver.display())))?;
    if is_private(&driver) {
        return Ok(driver);
    }
    let variable = |name, rest: &str| Some(Path::new(&std::env::var_os(name)?).join(rest));
    let cache = variable("XDG_CACHE_HOME", "").or_else(|| variable("HOME", ".cache")).unwrap_or_default();
    // Clones have copies of their own.
    let mut hash = DefaultHasher::new();
    driver.hash(&mut hash);
    let directory = cache.join(format!("millrace-drivers/{:016x}", hash.finish()));
    let copy = directory.join(driver.file_name().unwrap_or(OsStr::new("driver.so")));
    let failed = || Error::io(format!("copying the driver {} to {}", driver.display(), copy.display()));
    fs::create_dir_all(&directory).map_err(failed())?;
    // Another process may load the copy, or make it as well.
    let partial = directory.join(format!("partial-{}", std::process::id()));
    fs::copy(&driver, &partial).and_then(|_| fs::rename(&partial, &copy)).map_err(failed())?;
    Ok(copy)
}

/// Reports whether no other user may write to any directory above a file.
fn is_private(file: &Path) -> bool {
    let mut directories = file.ancestors().skip(1);
    directories.all(|directory| fs::metadata(directory).is_ok_and(|found| found.mode() & OTHERS_WRITE == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_others_could_replace_is_copied() {
        let shared = tempfile::tempdir().unwrap();
        fs::set_permissions(shared.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let driver = shared.path().join("librte_test.so");
        fs::write(&driver, "a driver").unwrap();
        let copy = accepted(&driver).unwrap();
        assert_ne!(copy, driver);
        assert_eq!(fs::read(&copy).unwrap(), b"a driver");
        fs::remove_dir_all(copy.parent().unwrap()).unwrap();
        assert!(accepted(&shared.path().join("missing.so")).is_err());
    }
}
