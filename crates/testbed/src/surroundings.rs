//! Network namespace and scheduling priority of a program.

use lab::netns::Namespace;
use std::path::Path;
use std::process::Command;

/// Surroundings of a program; by default this program's own.
#[derive(Clone, Copy, Default)]
pub struct Surroundings<'n> {
    /// Its network namespace.
    pub namespace: Option<&'n Namespace>,
    /// Its priority, if it shares a processor: whenever it has work, it precedes programs of a lower priority (SCHED_FIFO,
    /// for root only).
    pub priority: Option<u8>,
}

impl Surroundings<'_> {
    /// Returns a command that runs `program` in them.
    pub fn command(&self, program: &Path) -> Command {
        let Some(priority) = self.priority else { return self.inside(program) };
        let mut command = self.inside(Path::new("chrt"));
        command.args(["--fifo", &priority.to_string()]).arg(program);
        command
    }

    fn inside(&self, program: &Path) -> Command {
        self.namespace.map_or_else(|| Command::new(program), |namespace| namespace.command(program))
    }
}
