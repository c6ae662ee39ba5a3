//! Starting daemons.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal, setsid};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::{Daemon, Interrupt};
use crate::{Error, Result};

/// Options for starting a daemon.
#[derive(Debug, Clone)]
pub struct Launch {
    name: String,
    cores: Vec<usize>,
    interactive: bool,
    own_session: bool,
    interrupt: Option<Interrupt>,
}

impl Launch {
    /// Creates options for a daemon called `name` in messages, on any core, without input.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), cores: Vec::new(), interactive: false, own_session: false, interrupt: None }
    }

    /// Creates options for a part of a measurement: it has input, and waits for its end when `interrupt` is set. Its own session is a
    /// group of the scheduler, with as great a share of the processors as all processes of another session together.
    ///
    /// It gets no greater share: while four such groups with a niceness of -15 polled on two processors, Linux 6.18 hardly ran its RCU
    /// thread, so that AF_XDP sockets and network namespaces did not end.
    pub fn measured(name: impl Into<String>, interrupt: &Interrupt) -> Self {
        Self::new(name).interactive().own_session().interrupted_by(interrupt)
    }

    /// Confines the daemon to these cores.
    pub fn pin(mut self, cores: &[usize]) -> Self {
        self.cores = cores.to_vec();
        self
    }

    /// Keeps the daemon's standard input open for [`Daemon::send_line`].
    pub fn interactive(mut self) -> Self {
        self.interactive = true;
        self
    }

    /// Keeps the signals of this program's terminal away from the daemon.
    pub fn own_session(mut self) -> Self {
        self.own_session = true;
        self
    }

    fn interrupted_by(mut self, interrupt: &Interrupt) -> Self {
        self.interrupt = Some(interrupt.clone());
        self
    }

    /// Starts `command`.
    ///
    /// The kernel kills the daemon when the thread that called this ends, so that nothing survives a killed owner.
    /// Call it from the thread that will own the [`Daemon`].
    pub fn spawn(self, mut command: Command) -> Result<Daemon> {
        let input = if self.interactive { Stdio::piped() } else { Stdio::null() };
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut affinity = CpuSet::new();
        self.cores.iter().for_each(|&core| affinity.set(core));
        let (pinned, own_session) = (!self.cores.is_empty(), self.own_session);
        let prepare = move || -> io::Result<()> {
            if own_session {
                setsid()?;
            }
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if pinned {
                sched_setaffinity(None, &affinity)?;
            }
            Ok(())
        };
        // SAFETY: between fork and exec only async-signal-safe functions may run. `prepare` makes at most three plain system
        // calls with values it owns: it neither allocates nor takes a lock.
        unsafe { command.pre_exec(prepare) };
        let child = command.spawn().map_err(|e| Error::start(&command, e))?;
        Ok(Daemon::new(self.name, child, self.interrupt))
    }
}

impl Daemon {
    /// Starts `command` on any core and without input; see [`Launch::spawn`].
    pub fn spawn(name: impl Into<String>, command: Command) -> Result<Self> {
        Launch::new(name).spawn(command)
    }
}
