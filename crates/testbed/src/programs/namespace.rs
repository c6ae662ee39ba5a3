//! Unnamed network namespaces: each lasts as long as a process in it, which ends with this program even if that is killed.
//! Kernel cables end with the namespaces that they join.

use super::interrupt::Interrupt;
use super::program::{Program, ProgramError};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Time limit for creating a namespace.
const LIMIT: Duration = Duration::from_secs(10);

/// Error of creating a namespace or a cable.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum NamespaceError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("`{command}` failed; network interfaces can only be made by root, and with iproute2: {said}")]
    Command { command: String, said: String },
}

/// A network namespace; dropping it ends it, once nothing runs in it any more.
pub struct Namespace {
    holder: Program,
}

impl Namespace {
    /// Creates a namespace. Needs root.
    pub fn create(interrupt: &Interrupt) -> Result<Namespace, NamespaceError> {
        let mut command = Command::new("unshare");
        // A program that waits, and ends with its input.
        command.args(["--net", "cat"]);
        let mut holder = Program::start("the holder of a network namespace", command, interrupt)?;
        // It answers once it has entered the namespace.
        holder.say("moved")?;
        holder.wait_for("its network namespace", LIMIT, |holder| (!holder.output().is_empty()).then_some(()))?;
        Ok(Namespace { holder })
    }

    /// Returns a command that runs `program` inside, as the same process.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.holder.id())).arg("--").arg(program);
        command
    }

    /// Runs `work` inside, on a separate thread.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
        let file = std::fs::File::open(format!("/proc/{}/ns/net", self.holder.id()))?;
        let enter = || -> std::io::Result<T> {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        };
        std::thread::scope(|scope| scope.spawn(enter).join().expect("the thread does not panic"))
    }

    /// Runs a command inside to its end.
    pub fn run(&self, words: &[&str]) -> Result<(), NamespaceError> {
        let (program, arguments) = words.split_first().unwrap_or((&"true", &[]));
        let failed = |said: String| NamespaceError::Command { command: words.join(" "), said };
        let output = self.command(Path::new(program)).args(arguments).output().map_err(|e| failed(e.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

/// Returns a command that runs `program` in `namespace`, or in this program's namespace.
pub fn command_in(namespace: Option<&Namespace>, program: &Path) -> Command {
    namespace.map_or_else(|| Command::new(program), |namespace| namespace.command(program))
}

/// Does the same for a program that shares its processor: whenever it has work, it precedes programs of a lower priority
/// (SCHED_FIFO, for root only).
pub fn command_before(namespace: Option<&Namespace>, priority: Option<u8>, program: &Path) -> Command {
    let Some(priority) = priority else { return command_in(namespace, program) };
    let mut command = command_in(namespace, Path::new("chrt"));
    command.args(["--fifo", &priority.to_string()]).arg(program);
    command
}

/// Joins two namespaces by a pair of interfaces of these names, which are up. The kernel sends nothing on them by itself.
pub fn cable(ends: [(&Namespace, &str); 2]) -> Result<(), NamespaceError> {
    let [(a, here), (b, there)] = ends;
    let (first, second) = (a.holder.id().to_string(), b.holder.id().to_string());
    a.run(&["ip", "link", "add", here, "netns", &first, "type", "veth", "peer", "name", there, "netns", &second])?;
    for (namespace, name) in ends {
        namespace.run(&["ip", "link", "set", name, "addrgenmode", "none", "arp", "off", "up"])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cable_joins_two_and_goes_with_them() {
        let interrupt = Interrupt::install().unwrap();
        let [a, b] = [0, 1].map(|_| Namespace::create(&interrupt).unwrap_or_else(|e| panic!("as root: {e}")));
        cable([(&a, "here"), (&b, "there")]).unwrap();
        a.run(&["ip", "link", "show", "here", "up"]).unwrap();
        let interfaces = || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        assert!(b.within(interfaces).unwrap().contains("there") && !interfaces().contains("there"));
        let error = a.run(&["ip", "link", "show", "there"]).unwrap_err().to_string();
        assert!(error.contains("there"), "{error}");
        drop(b);
        let gone = || a.run(&["ip", "link", "show", "here"]).is_err();
        let deadline = std::time::Instant::now() + LIMIT;
        while !gone() {
            assert!(std::time::Instant::now() < deadline, "the cable is still there");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
