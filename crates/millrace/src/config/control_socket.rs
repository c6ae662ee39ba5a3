//! The default place of the control socket.

use std::path::{Path, PathBuf};

/// Returns the default path of the control socket: see the `control` section of the reference. `beside` is the directory of
/// the configuration file.
pub fn default_control_socket(beside: &Path) -> PathBuf {
    const NAME: &str = "millrace.sock";
    // The directory of the user, or of the service (systemd.exec(5), RuntimeDirectory=).
    for variable in ["XDG_RUNTIME_DIR", "RUNTIME_DIRECTORY"] {
        if let Some(own) = std::env::var_os(variable).filter(|dir| Path::new(dir).is_absolute()) {
            return PathBuf::from(own).join(NAME);
        }
    }
    let run = Path::new("/run");
    if rustix::fs::access(run, rustix::fs::Access::WRITE_OK).is_ok() {
        return run.join(NAME);
    }
    beside.join(NAME)
}
