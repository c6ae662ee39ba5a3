//! Network namespaces that are removed with their guard.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::output_of;
use crate::{Error, Result};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A named network namespace with its loopback device up; dropping it removes it.
///
/// Needs the right to create one (CAP_SYS_ADMIN and CAP_NET_ADMIN).
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Creates a namespace with a name that no other test uses.
    pub fn create() -> Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("e2e-{}-{number}", std::process::id());
        output_of(Command::new("ip").args(["netns", "add", &name]))?;
        let namespace = Self { name };
        namespace.run("ip", &["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Returns its name for `ip netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a command that runs `program` inside. The process keeps its id: `ip` execs the program.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs a program inside to its end; returns its standard output, or an error with its whole output.
    pub fn run(&self, program: &str, args: &[&str]) -> Result<String> {
        let out = output_of(self.command(program).args(args))?;
        String::from_utf8(out).map_err(|_| Error::malformed(format!("the output of {program}"), "it is not UTF-8"))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The last process inside keeps the namespace alive, but nameless; a failure cannot be reported here.
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).output();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> String {
        String::from_utf8(output_of(Command::new("ip").args(["netns", "list"])).unwrap()).unwrap()
    }

    #[test]
    fn it_has_its_own_devices_and_goes_with_its_guard() {
        let namespace = Namespace::create().unwrap();
        let name = namespace.name().to_owned();
        let links = namespace.run("ip", &["-o", "link", "show", "up"]).unwrap();
        assert_eq!(links.lines().count(), 1, "{links}");
        assert!(links.contains("lo:"), "{links}");
        assert!(names().contains(&name));
        drop(namespace);
        assert!(!names().lines().any(|line| line.split(' ').next() == Some(name.as_str())));
    }

    #[test]
    fn a_failing_command_is_an_error_with_its_words() {
        let namespace = Namespace::create().unwrap();
        let error = namespace.run("ip", &["link", "show", "nosuchdev"]).unwrap_err();
        assert!(error.to_string().contains("nosuchdev"), "{error}");
    }
}
