//! A container without an engine: separate namespaces, a read-only view of the host, and the sockets.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::{Error, Result};

/// Isolation of a network function from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// Separate namespaces for users, processes, network, mounts and the rest (bubblewrap).
    Namespaces,
    /// None: a plain process.
    None,
}

/// Directory of the sockets as seen inside; a number follows.
const INSIDE: &str = "/tmp/vhost";

/// Variable that names a directory with the files of another system: testpmd and its libraries are taken from there.
const ROOT: &str = "MILLRACE_DPDK_ROOT";

/// Returns the directory whose files testpmd sees, if it is not the host's.
fn root() -> Option<PathBuf> {
    env::var_os(ROOT).map(PathBuf::from)
}

/// Returns a bubblewrap command that shows the files of `root`, and the host's kernel and processors.
fn bwrap(root: &Path) -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--die-with-parent", "--ro-bind"]).arg(root).args(["/", "--ro-bind", "/sys", "/sys"]);
    command
}

impl Sandbox {
    /// Returns namespaces if the host permits them. If not, prints a note on standard error.
    pub fn detect() -> Self {
        static REFUSAL: OnceLock<Option<String>> = OnceLock::new();
        let refusal = REFUSAL.get_or_init(|| match Self::wrap(&[]).arg("true").output() {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim_end().to_owned()),
            Err(error) => Some(error.to_string()),
        });
        match refusal {
            None => Sandbox::Namespaces,
            Some(refusal) => {
                eprintln!("note: no sandbox, network functions run as plain processes: {refusal}");
                Sandbox::None
            }
        }
    }

    /// Returns a bubblewrap command with the common options, and with `directories` bound to reach the host's sockets.
    fn wrap(directories: &[PathBuf]) -> Command {
        let mut command = bwrap(&root().unwrap_or_else(|| "/".into()));
        command.args(["--unshare-all", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run"]);
        for (number, directory) in directories.iter().enumerate() {
            command.arg("--bind").arg(directory).arg(format!("{INSIDE}{number}"));
        }
        command.arg("--");
        command
    }

    /// Returns a directory that a program inside can write to: `outside` (which must be a directory) without a sandbox, else a
    /// private one.
    pub(super) fn scratch(self, outside: &Path) -> &Path {
        match self {
            Sandbox::Namespaces => Path::new("/run"),
            Sandbox::None => outside,
        }
    }

    /// Returns the command that runs `program` as a plain process.
    pub(super) fn plain(program: &str) -> Command {
        let Some(root) = root() else { return Command::new(program) };
        // Sockets and files of testpmd are there.
        let shared = env::temp_dir();
        let mut command = bwrap(&root);
        command.args(["--dev-bind", "/dev", "/dev", "--bind", "/proc", "/proc", "--bind"]).arg(&shared).arg(&shared);
        command.args(["--", program]);
        command
    }

    /// Returns the start of a command line in this sandbox, and the sockets' paths as seen from inside.
    ///
    /// Binds the sockets' directories, not the sockets: a restarted backend makes a new socket, which the old binding would not
    /// show, and a socket created by the network function must appear outside.
    pub(super) fn enter(self, sockets: &[&Path]) -> Result<(Command, Vec<PathBuf>)> {
        if self == Sandbox::None {
            return Ok((Self::plain("env"), sockets.iter().map(|&socket| socket.to_owned()).collect()));
        }
        let mut directories: Vec<PathBuf> = Vec::new();
        let mut inside = Vec::new();
        for socket in sockets {
            let (Some(parent), Some(name)) = (socket.parent(), socket.file_name()) else {
                return Err(Error::malformed(format!("the socket path {}", socket.display()), "it names no file"));
            };
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            let directory = parent.canonicalize().map_err(Error::io(format!("resolving {}", parent.display())))?;
            let number = directories.iter().position(|known| *known == directory).unwrap_or(directories.len());
            if number == directories.len() {
                directories.push(directory);
            }
            inside.push(Path::new(&format!("{INSIDE}{number}")).join(name));
        }
        Ok((Self::wrap(&directories), inside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_one_directory_share_a_binding() {
        let directory = tempfile::tempdir().unwrap();
        let (a, b) = (directory.path().join("a.sock"), directory.path().join("b.sock"));
        let (command, inside) = Sandbox::Namespaces.enter(&[&a, &b]).unwrap();
        assert_eq!(inside, ["/tmp/vhost0/a.sock", "/tmp/vhost0/b.sock"].map(PathBuf::from));
        assert_eq!(command.get_args().filter(|&argument| argument == "--bind").count(), 1);
    }

    #[test]
    fn files_may_be_of_another_system() {
        let command = bwrap("/srv/other".as_ref());
        let arguments: Vec<_> = command.get_args().collect();
        assert!(arguments.windows(3).any(|three| three == ["--ro-bind", "/srv/other", "/"]), "{arguments:?}");
    }

    #[test]
    fn without_a_sandbox_paths_stay() {
        let (_, inside) = Sandbox::None.enter(&["/run/a.sock".as_ref()]).unwrap();
        assert_eq!(inside, [PathBuf::from("/run/a.sock")]);
    }
}
