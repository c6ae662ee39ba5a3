//! A program that runs beside this one: in a separate session, with precedence over everything else on the machine, and no
//! longer than its owner.

use super::interrupt::{Interrupt, Interrupted};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal, setsid};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which waits check for events.
const TICK: Duration = Duration::from_millis(5);

/// Lines of a program's output that an error repeats.
const TAIL: usize = 12;

/// Error of a program.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ProgramError {
    #[error("{name} can't be started: {source}; is it installed, and in PATH?")]
    Start { name: String, source: io::Error },
    #[error("{name} ended ({status}) while it was waited for {what}{said}")]
    Ended { name: String, what: String, status: ExitStatus, said: String },
    #[error("{name}: waited {} s in vain for {what}{said}", limit.as_secs())]
    Late { name: String, what: String, limit: Duration, said: String },
    #[error("{name}: {action}: {source}")]
    System { name: String, action: &'static str, source: io::Error },
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// Output lines of a program.
type Lines = Arc<Mutex<Vec<String>>>;

/// A running program; dropping it kills it.
pub struct Program {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    output: Lines,
    errors: Lines,
    readers: Vec<JoinHandle<()>>,
    interrupt: Interrupt,
}

impl Program {
    /// Starts `command`, called `name` in messages.
    pub fn start(
        name: impl Into<String>,
        mut command: Command,
        interrupt: &Interrupt,
    ) -> Result<Program, ProgramError> {
        let name = name.into();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let enter = || {
            // Leave the terminal's signals, and enter a separate autogroup, whose share of the processor can be set. The second
            // call ends the child if this program is killed.
            setsid()?;
            set_parent_process_death_signal(Some(Signal::KILL))?;
            Ok(())
        };
        // SAFETY: between fork and exec, the closure makes two system calls and nothing else.
        unsafe { command.pre_exec(enter) };
        let mut child = command.spawn().map_err(|source| ProgramError::Start { name: name.clone(), source })?;
        // With autogroups, this has the effect that nice has without. Only root may do it, and not every kernel has them.
        let _ = std::fs::write(format!("/proc/{}/autogroup", child.id()), "-15");
        let (output, errors) = (Lines::default(), Lines::default());
        let readers = [
            child.stdout.take().map(|pipe| read(pipe, output.clone())),
            child.stderr.take().map(|pipe| read(pipe, errors.clone())),
        ];
        let input = child.stdin.take();
        let readers = readers.into_iter().flatten().collect();
        Ok(Program { name, child, input, output, errors, readers, interrupt: interrupt.clone() })
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) -> Result<(), ProgramError> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)
            .map_err(|error| self.system("asking it to end", error.into()))
    }

    /// Writes a line to its standard input.
    pub fn say(&mut self, line: &str) -> Result<(), ProgramError> {
        let Some(input) = &mut self.input else { return Ok(()) };
        writeln!(input, "{line}").map_err(|source| self.system("writing to its input", source))
    }

    /// Returns the lines written to standard output so far.
    pub fn output(&self) -> MutexGuard<'_, Vec<String>> {
        lock(&self.output)
    }

    /// Returns the lines written to standard error so far.
    pub fn errors(&self) -> MutexGuard<'_, Vec<String>> {
        lock(&self.errors)
    }

    /// Calls `look` until it finds something; `what` names it in errors.
    pub fn wait_for<T>(
        &mut self,
        what: &str,
        limit: Duration,
        mut look: impl FnMut(&Program) -> Option<T>,
    ) -> Result<T, ProgramError> {
        let deadline = Instant::now() + limit;
        loop {
            // Look once more after the program has ended: it may have written everything in between, and ended well.
            let alive = self.check(what);
            if let Some(found) = look(self) {
                return Ok(found);
            }
            alive?;
            if Instant::now() > deadline {
                return Err(ProgramError::Late {
                    name: self.name.clone(),
                    what: what.into(),
                    limit,
                    said: self.said(),
                });
            }
            self.interrupt.sleep(TICK)?;
        }
    }

    /// Returns an error if it has ended.
    pub fn check(&mut self, what: &str) -> Result<(), ProgramError> {
        self.interrupt.check()?;
        match self.ended()? {
            Some(status) => Err(self.bad_end(what, status)),
            None => Ok(()),
        }
    }

    /// Waits until it ends by itself; returns all its standard output. The exit status matters only if there is none.
    pub fn finish(mut self, limit: Duration) -> Result<String, ProgramError> {
        let status = self.wait_end(limit)?;
        let text = self.output().join("\n");
        if text.is_empty() { Err(self.bad_end("its report", status)) } else { Ok(text) }
    }

    /// Waits until it ends; returns all its standard error.
    pub fn last_words(mut self, limit: Duration) -> Result<Vec<String>, ProgramError> {
        self.wait_end(limit)?;
        Ok(self.errors().clone())
    }

    /// Waits until it ends by itself, without an error: some programs report failures on standard error only, and exit with
    /// success.
    pub fn succeed(mut self, limit: Duration) -> Result<(), ProgramError> {
        let status = self.wait_end(limit)?;
        let quiet = self.errors().is_empty();
        if status.success() && quiet { Ok(()) } else { Err(self.bad_end("its success", status)) }
    }

    fn wait_end(&mut self, limit: Duration) -> Result<ExitStatus, ProgramError> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.ended()? {
                self.drain();
                return Ok(status);
            }
            if Instant::now() > deadline {
                let (what, said) = ("its end".into(), self.said());
                return Err(ProgramError::Late { name: self.name.clone(), what, limit, said });
            }
            self.interrupt.sleep(TICK)?;
        }
    }

    /// Returns the processor time used so far.
    pub fn cpu_time(&self) -> Result<Duration, ProgramError> {
        let failed = |source| self.system("reading its processor time", source);
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).map_err(failed)?;
        let ticks = ticks(&text).ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
        Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>, ProgramError> {
        let status = self.child.try_wait();
        status.map_err(|source| self.system("asking whether it has ended", source))
    }

    fn bad_end(&mut self, what: &str, status: ExitStatus) -> ProgramError {
        self.drain();
        ProgramError::Ended { name: self.name.clone(), what: what.into(), status, said: self.said() }
    }

    /// Builds the error of a failed system call.
    pub fn system(&self, action: &'static str, source: io::Error) -> ProgramError {
        ProgramError::System { name: self.name.clone(), action, source }
    }

    /// Reads its last output, once it has ended.
    fn drain(&mut self) {
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }

    /// Returns the end of its standard error, or else of its standard output, for an error message.
    fn said(&self) -> String {
        let (errors, output) = (self.errors(), self.output());
        let lines = if errors.is_empty() { &output } else { &errors };
        if lines.is_empty() {
            return String::new();
        }
        format!("; it said:\n{}", lines[lines.len().saturating_sub(TAIL)..].join("\n"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A failure cannot be reported here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(pipe: impl Read + Send + 'static, lines: Lines) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            lock(&lines).push(line);
        }
    })
}

fn lock(lines: &Lines) -> MutexGuard<'_, Vec<String>> {
    // A push leaves the lines whole, so a reader that panicked did no harm.
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns user and system time from /proc/PID/stat, fields 14 and 15; the name in field 2 may hold anything, in parentheses.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> (Program, Interrupt) {
        let interrupt = Interrupt::install().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        (Program::start("the shell", command, &interrupt).unwrap(), interrupt)
    }

    #[test]
    fn what_a_program_said_before_it_ended_counts() {
        let (mut program, _) = shell("echo ready >&2");
        while program.ended().unwrap().is_none() {
            std::thread::yield_now();
        }
        let said = |program: &Program| program.errors().iter().any(|line| line == "ready").then_some(());
        program.wait_for("it to be ready", Duration::from_secs(10), said).unwrap();
    }

    #[test]
    fn errors_repeat_what_a_program_said() {
        let (mut program, _) = shell("echo oh dear >&2; exit 3");
        let error = program.wait_for("an answer", Duration::from_secs(10), |_| None::<()>).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("oh dear") && text.contains("an answer") && text.contains('3'), "{text}");
    }

    #[test]
    fn a_program_ends_with_its_owner() {
        let (mut program, _) = shell("echo ready; read line; echo $line; sleep 100");
        program.say("hello").unwrap();
        program.wait_for("its echo", Duration::from_secs(10), |p| (p.output().len() == 2).then_some(())).unwrap();
        assert_eq!(*program.output(), ["ready", "hello"]);
        let id = program.id();
        drop(program);
        assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
    }

    #[test]
    fn a_report_is_taken_whatever_the_status() {
        let (program, _) = shell("echo a; echo b; exit 1");
        assert_eq!(program.finish(Duration::from_secs(10)).unwrap(), "a\nb");
    }

    #[test]
    fn a_complaint_is_no_success() {
        let succeed = |script| shell(script).0.succeed(Duration::from_secs(10)).map_err(|error| error.to_string());
        assert_eq!(succeed("echo fine"), Ok(()));
        assert!(succeed("exit 1").is_err());
        assert!(succeed("echo oh dear >&2").is_err_and(|text| text.contains("oh dear")));
    }

    #[test]
    fn times_are_found_behind_any_name() {
        assert_eq!(ticks("12 (a b) c)) S 1 2 3 4 5 6 7 8 9 10 40 2 0 0"), Some(42));
        assert_eq!(ticks("12"), None);
    }
}
