//! A child process with its output captured.

use std::io::Write;
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::log::Stream;
use super::{Interrupt, Log, Usage, usage};
use crate::{Error, Result};

/// Number of lines of output that an error quotes.
const TAIL: usize = 40;

/// Interval at which a wait checks whether the process is still alive.
const TICK: Duration = Duration::from_millis(20);

/// Interval at which [`Daemon::wait_for`] looks.
const LOOK: Duration = Duration::from_millis(5);

/// Time for the pipes of a process that has ended to be read to their end; a grandchild may hold them open for longer.
const LAST_OUTPUT: Duration = Duration::from_secs(10);

/// A running child process; dropping it kills it and waits for it to end.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    log: Arc<Log>,
    interrupt: Option<Interrupt>,
}

impl Daemon {
    pub(super) fn new(name: String, mut child: Child, interrupt: Option<Interrupt>) -> Self {
        let log = Arc::new(Log::default());
        if let Some(pipe) = child.stdout.take() {
            log.capture(pipe, Stream::Output);
        }
        if let Some(pipe) = child.stderr.take() {
            log.capture(pipe, Stream::Errors);
        }
        let input = child.stdin.take();
        Self { name, child, input, log, interrupt }
    }

    /// Returns the name used in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its process id and those of its descendants.
    pub fn tree(&self) -> Vec<u32> {
        [vec![self.pid()], usage::descendants(self.pid())].concat()
    }

    /// Returns the output so far.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the exit status, if the process has ended.
    pub fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(Error::io(format!("asking for the state of {}", self.name)))
    }

    /// Returns the process's current resource usage.
    pub fn usage(&self) -> Result<Usage> {
        Usage::of(self.pid())
    }

    /// Returns the processor time used so far. Costs the process nothing, unlike [`Daemon::usage`].
    pub fn cpu_time(&self) -> Result<Duration> {
        usage::cpu_time_of(self.pid())
    }

    /// Writes a line to the process's standard input.
    pub fn send_line(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().ok_or_else(|| {
            Error::malformed(format!("input for {}", self.name), "the daemon was not launched as interactive")
        })?;
        writeln!(input, "{line}").map_err(Error::io(format!("writing {line:?} to {}", self.name)))
    }

    /// Waits for a line that `wanted` accepts, anywhere in the output; `description` is for the error message.
    pub fn wait_for_line(
        &mut self,
        description: &str,
        timeout: Duration,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<String> {
        self.wait_for_line_since(0, description, timeout, wanted).map(|(_, line)| line)
    }

    /// Does the same as [`Daemon::wait_for_line`] for lines from `mark` on; returns the line with its number.
    pub fn wait_for_line_since(
        &mut self,
        mark: usize,
        description: &str,
        timeout: Duration,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<(usize, String)> {
        let log = Arc::clone(&self.log);
        let waiting_for = format!("waiting for {description}");
        self.wait_until(&waiting_for, timeout, |left| log.wait(mark, Instant::now() + left, &wanted))
    }

    /// Calls `look` until it finds something, the process ends or the time is up.
    pub fn wait_for<T>(
        &mut self,
        description: &str,
        timeout: Duration,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        self.wait_until(&format!("waiting for {description}"), timeout, |patience| {
            let found = look();
            if found.is_none() {
                std::thread::sleep(patience.min(LOOK));
            }
            found
        })
    }

    /// Calls `probe` with a short time to wait, repeatedly, until it has a result, the process ends or the time is up.
    pub fn wait_until<T>(
        &mut self,
        waiting_for: &str,
        timeout: Duration,
        mut probe: impl FnMut(Duration) -> Option<T>,
    ) -> Result<T> {
        let deadline = Instant::now() + timeout;
        loop {
            self.check_interrupt()?;
            // In this order, so that output written just before the process ended still counts.
            let ended = self.exit_status()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if ended.is_some() {
                // On a busy machine the threads that read its pipes may be far behind.
                self.log.wait_closed(Instant::now() + LAST_OUTPUT);
            }
            let patience = if ended.is_some() { Duration::ZERO } else { left.min(TICK) };
            if let Some(result) = probe(patience) {
                return Ok(result);
            }
            if let Some(status) = ended {
                return Err(self.exited(waiting_for, status));
            }
            if left.is_zero() {
                return Err(self.timed_out(waiting_for, timeout));
            }
        }
    }

    pub(crate) fn check_interrupt(&self) -> Result<()> {
        self.interrupt.as_ref().map_or(Ok(()), Interrupt::check)
    }

    /// Returns an error if the process has ended, or if a signal has interrupted the measurement.
    pub fn check(&mut self, waiting_for: &str) -> Result<()> {
        self.check_interrupt()?;
        match self.exit_status()? {
            Some(status) => Err(self.exited(&format!("waiting for {waiting_for}"), status)),
            None => Ok(()),
        }
    }

    /// Returns the error for a wait that took longer than `after`.
    pub fn timed_out(&self, waiting_for: &str, after: Duration) -> Error {
        Error::Timeout {
            name: self.name.clone(),
            waiting_for: waiting_for.to_owned(),
            after,
            tail: self.log.tail(TAIL),
        }
    }

    /// Returns the error for a process that has ended before an awaited event.
    pub fn exited(&self, waiting_for: &str, status: ExitStatus) -> Error {
        Error::Exited {
            name: self.name.clone(),
            status: Error::status(status),
            waiting_for: waiting_for.to_owned(),
            tail: self.log.tail(TAIL),
        }
    }

    /// Sends a signal, such as [`Signal::STOP`].
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        // A process that has ended keeps its id until it is waited for, which only `self` does: no other process can be hit,
        // provided that the child was not reaped yet.
        if let Some(status) = self.exit_status()? {
            return Err(self.exited(&format!("sending it signal {}", signal.as_raw()), status));
        }
        kill_process(Pid::from_child(&self.child), signal)
            .map_err(|e| Error::Io { action: format!("signalling {}", self.name), source: e.into() })
    }

    /// Waits for the process to end by itself.
    pub fn wait(&mut self, timeout: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.exit_status()? {
                // On a busy machine the threads that read its pipes may be far behind.
                self.log.wait_closed(Instant::now() + LAST_OUTPUT);
                return Ok(status);
            }
            self.check_interrupt()?;
            if Instant::now() >= deadline {
                return Err(self.timed_out("its end", timeout));
            }
            std::thread::sleep(TICK);
        }
    }

    /// Waits for the process to end by itself; returns its standard output. The exit status matters only if there is none.
    pub fn finish(mut self, timeout: Duration) -> Result<String> {
        let status = self.wait_with_output(timeout)?;
        let text = self.log.lines_of(Stream::Output).join("\n");
        if text.is_empty() { Err(self.exited("waiting for its report", status)) } else { Ok(text) }
    }

    /// Waits for the process to end by itself, without a complaint: some programs report failures on standard error only, and
    /// exit with success.
    pub fn succeed(mut self, timeout: Duration) -> Result<()> {
        let status = self.wait_with_output(timeout)?;
        let quiet = self.log.lines_of(Stream::Errors).is_empty();
        if status.success() && quiet { Ok(()) } else { Err(self.exited("waiting for its success", status)) }
    }

    /// Asks the process to end (SIGTERM) and waits for it; returns the lines of its standard error.
    pub fn last_words(mut self, timeout: Duration) -> Result<Vec<String>> {
        self.signal(Signal::TERM)?;
        self.wait_with_output(timeout)?;
        Ok(self.log.lines_of(Stream::Errors))
    }

    /// Waits for the process to end, and for the last of its output.
    fn wait_with_output(&mut self, timeout: Duration) -> Result<ExitStatus> {
        let status = self.wait(timeout)?;
        self.log.wait_closed(Instant::now() + LAST_OUTPUT);
        Ok(status)
    }

    /// Asks the process to end (SIGTERM) and waits for it.
    pub fn terminate(&mut self, timeout: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.wait(timeout)
    }

    /// Ends the process at once (SIGKILL) and waits for it, so that its sockets are free for a successor.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        let killed = |e| Error::Io { action: format!("killing {}", self.name), source: e };
        self.child.kill().and_then(|()| self.child.wait()).map_err(killed)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already, and a failure cannot be reported here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::super::Launch;
    use super::*;
    use std::process::Command;

    const SOON: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_line_is_found_and_the_input_reaches_it() {
        let mut daemon = Launch::new("echo").interactive().spawn(shell("echo up; read x; echo got $x >&2")).unwrap();
        daemon.wait_for_line("up", SOON, |line| line == "up").unwrap();
        daemon.send_line("word").unwrap();
        let (number, _) = daemon.wait_for_line_since(1, "the word", SOON, |line| line == "got word").unwrap();
        assert_eq!(number, 1);
        assert!(daemon.wait(SOON).unwrap().success());
    }

    #[test]
    fn a_line_that_is_read_after_the_end_counts() {
        let mut daemon = Daemon::spawn("late", shell("(sleep 1; echo late) & exit 0")).unwrap();
        daemon.wait_for_line("a late line", SOON, |line| line == "late").unwrap();
    }

    #[test]
    fn a_dead_daemon_is_not_waited_for() {
        let mut daemon = Daemon::spawn("dead", shell("echo last words; exit 3")).unwrap();
        let error = daemon.wait_for_line("a miracle", SOON, |_| false).unwrap_err();
        assert!(matches!(error, Error::Exited { .. }), "{error}");
        assert!(error.to_string().contains("last words"), "{error}");
    }

    #[test]
    fn a_silent_daemon_times_out_with_its_tail() {
        let mut daemon = Daemon::spawn("slow", shell("echo thinking; exec sleep 60")).unwrap();
        daemon.wait_for_line("a sign", SOON, |line| line == "thinking").unwrap();
        let error = daemon.wait_for_line("a result", Duration::from_millis(50), |line| line == "42").unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        assert!(error.to_string().contains("thinking"), "{error}");
        assert!(!daemon.terminate(SOON).unwrap().success());
        assert!(daemon.signal(Signal::TERM).is_err());
    }

    #[test]
    fn dropping_ends_the_process() {
        let daemon = Daemon::spawn("sleep", shell("exec sleep 60")).unwrap();
        let proc_entry = format!("/proc/{}", daemon.pid());
        assert!(std::path::Path::new(&proc_entry).exists());
        drop(daemon);
        assert!(!std::path::Path::new(&proc_entry).exists());
    }

    #[test]
    fn it_stays_on_its_core_and_burns_only_that() {
        let core = crate::cpu::available()[0];
        let daemon = Launch::new("sleep").pin(&[core]).spawn(shell("exec sleep 60")).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
        assert!(status.contains(&format!("Cpus_allowed_list:\t{core}\n")), "{status}");
        assert!(daemon.usage().unwrap().cpu < Duration::from_secs(1));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Daemon::spawn("x", Command::new("no-such-program-here")).unwrap_err();
        assert!(matches!(&error, Error::MissingTool { tool } if tool == "no-such-program-here"), "{error}");
    }

    #[test]
    fn a_report_is_taken_with_any_exit_status() {
        let daemon = Daemon::spawn("report", shell("echo a; echo no >&2; echo b; exit 1")).unwrap();
        assert_eq!(daemon.finish(SOON).unwrap(), "a\nb");
        let error = Daemon::spawn("silent", shell("echo oh dear >&2; exit 3")).unwrap().finish(SOON).unwrap_err();
        assert!(error.to_string().contains("oh dear") && error.to_string().contains('3'), "{error}");
    }

    #[test]
    fn a_complaint_is_no_success() {
        let succeed = |script| Daemon::spawn("program", shell(script)).unwrap().succeed(SOON);
        assert!(succeed("echo fine").is_ok());
        assert!(succeed("exit 1").is_err());
        assert!(succeed("echo oh dear >&2").is_err_and(|error| error.to_string().contains("oh dear")));
    }

    #[test]
    fn an_error_quotes_the_end_of_standard_error() {
        let script = "trap 'echo goodbye >&2; exit' TERM; echo up; while :; do sleep 0.01; done";
        let mut daemon = Daemon::spawn("polite", shell(script)).unwrap();
        daemon.wait_for_line("up", SOON, |line| line == "up").unwrap();
        assert_eq!(daemon.last_words(SOON).unwrap(), ["goodbye"]);
    }
}
