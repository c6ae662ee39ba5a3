//! The default place of the control socket.

use std::path::{Path, PathBuf};

/// Returns the default path of the control socket: see the `control` section of the reference. `beside` is the directory of
/// the configuration file.
pub fn default_control_socket(beside: &Path) -> PathBuf {
    const NAME: &str = "millrace.sock";
    if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute()) {
        return PathBuf::from(runtime).join(NAME);
    }
    let run = Path::new("/run");
    if rustix::fs::access(run, rustix::fs::Access::WRITE_OK).is_ok() {
        return run.join(NAME);
    }
    beside.join(NAME)
}
