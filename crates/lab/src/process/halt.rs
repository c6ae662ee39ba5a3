//! Stopping one thread of a process, while its other threads continue.

use std::fs;
use std::marker::PhantomData;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::Daemon;
use crate::{Error, Result};

/// A thread of another process that is stopped, wherever it was; dropping this lets it continue.
#[derive(Debug)]
pub struct Halt {
    thread: Pid,
    process: u32,
    /// A signal that arrived as the thread stopped. It is delivered when the thread continues.
    signal: Option<Signal>,
    /// It stopped before a system call that it has not made yet.
    is_before_call: bool,
    /// ptrace(2) ties the thread to the one that stopped it, so this stays there.
    _here: PhantomData<*const ()>,
}

impl Daemon {
    /// Stops the thread with this name, as a debugger does; an error if several have it.
    pub fn halt(&self, name: &str) -> Result<Halt> {
        Halt::new(self.pid(), name)
    }
}

impl Halt {
    fn new(pid: u32, name: &str) -> Result<Halt> {
        let thread = find(pid, name)?;
        // Stops at system calls differ from all others (ptrace(2), "Syscall-stops").
        ptrace::seize(thread, Options::PTRACE_O_TRACESYSGOOD).map_err(failed("PTRACE_SEIZE", thread))?;
        // From here on, dropping it detaches.
        let mut halt = Halt { thread, process: pid, signal: None, is_before_call: false, _here: PhantomData };
        ptrace::interrupt(thread).map_err(failed("PTRACE_INTERRUPT", thread))?;
        halt.wait()?;
        Ok(halt)
    }

    /// Lets the thread execute this number of instructions. If one of them is a system call that waits, this waits as well.
    pub fn step(&mut self, instructions: usize) -> Result<()> {
        for _ in 0..instructions {
            ptrace::step(self.thread, self.signal.take()).map_err(failed("PTRACE_SINGLESTEP", self.thread))?;
            self.wait()?;
            self.is_before_call = false;
        }
        Ok(())
    }

    /// Lets the thread run until just before its next system call, and returns the number of that call. If the process is killed
    /// now, the call is not made.
    pub fn next_call(&mut self) -> Result<i64> {
        loop {
            ptrace::syscall(self.thread, self.signal.take()).map_err(failed("PTRACE_SYSCALL", self.thread))?;
            if let WaitStatus::PtraceSyscall(_) = self.wait()? {
                // Stops before and after a call alternate.
                self.is_before_call = !self.is_before_call;
                if self.is_before_call {
                    break;
                }
            }
        }
        let path = format!("/proc/{}/syscall", self.thread);
        let text = fs::read_to_string(&path).map_err(Error::io(format!("reading {path}")))?;
        let number = text.split(' ').next().and_then(|number| number.parse().ok());
        number.ok_or_else(|| Error::malformed(path, format!("no number of a system call in {text:?}")))
    }

    /// Waits until the thread has stopped, and returns why it did.
    fn wait(&mut self) -> Result<WaitStatus> {
        let status = waitpid(self.thread, Some(WaitPidFlag::__WALL)).map_err(failed("waitpid", self.thread))?;
        match status {
            // It stopped as it was told to.
            WaitStatus::PtraceEvent(..) | WaitStatus::PtraceSyscall(_) | WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
            WaitStatus::Stopped(_, signal) => self.signal = Some(signal),
            ended => return Err(Error::malformed(format!("thread {}", self.thread), format!("it ended: {ended:?}"))),
        }
        Ok(status)
    }
}

fn failed(call: &str, thread: Pid) -> impl FnOnce(Errno) -> Error {
    let action = format!("{call} of thread {thread}");
    move |error| Error::io(action)(error.into())
}

impl Drop for Halt {
    fn drop(&mut self) {
        let is_gone = ptrace::detach(self.thread, self.signal).is_err();
        if is_gone && self.thread.as_raw() as u32 != self.process {
            // The process was killed meanwhile, and ends once the end of this thread has been waited for.
            let _ = waitpid(self.thread, Some(WaitPidFlag::__WALL));
        }
    }
}

fn find(pid: u32, name: &str) -> Result<Pid> {
    let path = format!("/proc/{pid}/task");
    let tasks = fs::read_dir(&path).map_err(Error::io(format!("listing {path}")))?;
    // A thread that ends meanwhile has no name.
    let named =
        |task: &fs::DirEntry| fs::read_to_string(task.path().join("comm")).is_ok_and(|it| it.trim_end() == name);
    let mut found = tasks.flatten().filter(named).filter_map(|task| task.file_name().to_str()?.parse().ok());
    match (found.next(), found.next()) {
        (Some(thread), None) => Ok(Pid::from_raw(thread)),
        (None, _) => Err(Error::malformed(path, format!("there is no thread {name}"))),
        (Some(_), Some(_)) => Err(Error::malformed(path, format!("there are several threads {name}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::{Duration, Instant};

    /// Waits until a process with one thread is in one of these states (proc(5)).
    fn wait_for_state(pid: u32, expected: &[&str]) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            let state = stat.rsplit_once(") ").and_then(|(_, fields)| fields.split(' ').next()).unwrap();
            if expected.contains(&state) {
                return;
            }
            assert!(Instant::now() < deadline, "it is {state}, not {expected:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_thread_can_be_stopped_anywhere_and_continued() {
        let mut sleeper = Command::new("sleep");
        sleeper.arg("1000");
        let mut busy = Command::new("sh");
        busy.args(["-c", "while :; do :; done"]);
        for (name, command, states) in [("sleep", sleeper, &["S"][..]), ("sh", busy, &["R"])] {
            let daemon = Daemon::spawn(name, command).unwrap();
            for _ in 0..3 {
                wait_for_state(daemon.pid(), states);
                let mut halt = daemon.halt(name).unwrap();
                wait_for_state(daemon.pid(), &["t"]);
                if name == "sh" {
                    halt.step(1000).unwrap();
                    wait_for_state(daemon.pid(), &["t"]);
                }
                drop(halt);
            }
            wait_for_state(daemon.pid(), states);
            let halt = daemon.halt(name).unwrap();
            drop(daemon);
            drop(halt);
        }
    }

    #[test]
    fn a_system_call_is_not_made_if_the_process_is_killed_before_it() {
        for is_killed in [true, false] {
            let mut command = Command::new("sh");
            command.args(["-c", "read go; echo made"]);
            let mut daemon = super::super::Launch::new("sh").interactive().spawn(command).unwrap();
            wait_for_state(daemon.pid(), &["S"]);
            let mut halt = daemon.halt("sh").unwrap();
            daemon.send_line("go").unwrap();
            while halt.next_call().unwrap() != nix::libc::SYS_write {}
            if is_killed {
                daemon.signal(rustix::process::Signal::KILL).unwrap();
            }
            drop(halt);
            assert_eq!(daemon.wait(Duration::from_secs(60)).unwrap().success(), !is_killed);
            assert_eq!(daemon.log().since(0).len(), usize::from(!is_killed));
        }
    }

    #[test]
    fn a_missing_thread_is_named() {
        let error = Halt::new(std::process::id(), "nobody").unwrap_err().to_string();
        assert!(error.contains("there is no thread nobody"), "{error}");
    }
}
