//! Unnamed network namespaces: each lasts as long as a process in it, which ends with this program even if that is killed.
//! Kernel cables end with the namespaces that they join.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::output_of;
use crate::process::{Daemon, Launch};
use crate::{Error, Result};

/// Time limit for creating a namespace, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Gives a program a view of /sys in which it finds the interfaces of its own namespace, and runs it as the same process.
const WITH_SYSFS: &str = "umount -l /sys; mount -t sysfs sysfs /sys; exec \"$@\"";

/// A network namespace with its loopback device up; dropping it and its clones ends it, once nothing runs in it any more.
///
/// Needs the right to create one (CAP_SYS_ADMIN and CAP_NET_ADMIN).
#[derive(Debug, Clone)]
pub struct Namespace {
    /// The id of the holder.
    name: String,
    _holder: Arc<Daemon>,
}

impl Namespace {
    /// Creates a namespace.
    pub fn create() -> Result<Self> {
        let mut command = Command::new("unshare");
        // `cat` waits, and ends with its input.
        command.args(["--net", "cat"]);
        let holder = Launch::new("the holder of a network namespace").interactive().own_session();
        let mut holder = holder.spawn(command)?;
        // It answers once it has entered the namespace.
        holder.send_line("moved")?;
        holder.wait_for_line("its network namespace", LIMIT, |line| line == "moved")?;
        let namespace = Self { name: holder.pid().to_string(), _holder: Arc::new(holder) };
        namespace.run("ip", &["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Returns its name for `ip link ... netns`: the id of a process inside.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a command that runs `program` inside, as the same process.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).args(["unshare", "--mount", "sh", "-c", WITH_SYSFS, "sh"]);
        command.arg(program.as_ref());
        command
    }

    /// Returns a command that runs `command` inside, with its arguments and environment.
    pub fn wrap(&self, command: &Command) -> Command {
        let mut inside = self.command(Path::new(command.get_program()));
        inside.args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }

    /// Runs a program inside to its end; returns its standard output, or an error with its whole output.
    pub fn run(&self, program: &str, args: &[&str]) -> Result<String> {
        let out = output_of(self.command(program).args(args))?;
        String::from_utf8(out).map_err(|_| Error::malformed(format!("the output of {program}"), "it is not UTF-8"))
    }

    /// Runs `work` inside, on a separate thread.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let failed = || Error::io("entering a network namespace");
        let file = File::open(self.path()).map_err(failed())?;
        let enter = || {
            let moved = move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
            moved.map(|()| work()).map_err(|e| failed()(e.into()))
        };
        std::thread::scope(|scope| scope.spawn(enter).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.name)
    }
}

/// Joins two namespaces by a pair of interfaces of these names, which are up. The kernel sends nothing on them by itself.
pub fn cable(ends: [(&Namespace, &str); 2]) -> Result<()> {
    let [(a, here), (b, there)] = ends;
    a.run("ip", &["link", "add", here, "type", "veth", "peer", "name", there, "netns", b.name()])?;
    for (namespace, name) in ends {
        namespace.run("ip", &["link", "set", name, "addrgenmode", "none", "arp", "off", "up"])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn it_has_its_own_devices_and_goes_with_its_guard() {
        let namespace = Namespace::create().unwrap();
        let links = namespace.run("ip", &["-o", "link", "show", "up"]).unwrap();
        assert_eq!(links.lines().count(), 1, "{links}");
        assert!(links.contains("lo:"), "{links}");
        namespace.run("ip", &["link", "add", "here", "type", "veth", "peer", "name", "there"]).unwrap();
        let sysfs = namespace.run("ls", &["/sys/class/net"]).unwrap();
        assert_eq!(sysfs.split_ascii_whitespace().collect::<Vec<_>>(), ["here", "lo", "there"]);
        let holder = namespace.path();
        drop(namespace);
        assert!(!Path::new(&holder).exists());
    }

    #[test]
    fn a_failing_command_is_an_error_with_its_words() {
        let namespace = Namespace::create().unwrap();
        let error = namespace.run("ip", &["link", "show", "nosuchdev"]).unwrap_err();
        assert!(error.to_string().contains("nosuchdev"), "{error}");
    }

    #[test]
    fn a_cable_joins_two_and_goes_with_them() {
        let [a, b] = [0, 1].map(|_| Namespace::create().unwrap_or_else(|e| panic!("as root: {e}")));
        cable([(&a, "here"), (&b, "there")]).unwrap();
        a.run("ip", &["link", "show", "here", "up"]).unwrap();
        let interfaces = || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        assert!(b.within(interfaces).unwrap().contains("there") && !interfaces().contains("there"));
        let error = a.run("ip", &["link", "show", "there"]).unwrap_err().to_string();
        assert!(error.contains("there"), "{error}");
        drop(b);
        let gone = || a.run("ip", &["link", "show", "here"]).is_err();
        let deadline = Instant::now() + LIMIT;
        while !gone() {
            assert!(Instant::now() < deadline, "the cable is still there");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
