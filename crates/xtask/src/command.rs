//! Running other programs: announced before, shown while they run, and explained when they fail.

use std::ffi::OsString;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time that a program that runs beside others may take. The longest takes 3 minutes, three times that on a busy machine.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// Error of a task, in words for its user.
#[derive(Debug)]
pub struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for Failure {
    fn from(words: String) -> Failure {
        Failure(words)
    }
}

impl From<&str> for Failure {
    fn from(words: &str) -> Failure {
        Failure(words.to_owned())
    }
}

/// Tests that ran, as `cargo test` counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tests {
    pub passed: u64,
    pub failed: u64,
}

impl std::iter::Sum for Tests {
    fn sum<I: Iterator<Item = Tests>>(all: I) -> Tests {
        all.fold(Tests::default(), |a, b| Tests { passed: a.passed + b.passed, failed: a.failed + b.failed })
    }
}

impl Tests {
    /// Parses a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
    fn parse(line: &str) -> Option<Tests> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |what: &str| counts.split("; ").find_map(|part| part.strip_suffix(what)?.trim().parse().ok());
        Some(Tests { passed: count("passed")?, failed: count("failed")? })
    }
}

/// The tests run so far, and how long each program took.
#[derive(Default)]
pub struct Account {
    pub tests: Tests,
    pub times: Vec<(String, Duration)>,
}

/// The workspace, and the account of programs run there.
pub struct Context {
    pub root: PathBuf,
    account: Mutex<Account>,
    /// Whether output is shown only when a program has ended.
    aside: bool,
    /// Whether programs run at the lowest priority.
    gives_way: Arc<AtomicBool>,
}

impl Context {
    pub fn new() -> Result<Context, Failure> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = here.ancestors().nth(2).ok_or("the workspace is not where it was when this was built")?;
        Ok(Context { root: root.to_owned(), account: Mutex::default(), aside: false, gives_way: Arc::default() })
    }

    /// Returns a context whose programs run beside those of `self`, and at the lowest priority while `gives_way` is
    /// set.
    pub fn aside(&self, gives_way: &Arc<AtomicBool>) -> Context {
        Context { root: self.root.clone(), account: Mutex::default(), aside: true, gives_way: gives_way.clone() }
    }

    /// Restores the normal priority. Running programs keep theirs if only root may change it.
    pub fn stop_giving_way(&self, gives_way: &AtomicBool) {
        gives_way.store(false, Ordering::Relaxed);
        let group = rustix::process::getpgrp().as_raw_nonzero().to_string();
        let _ = self.command("renice").args(&["-n", "0", "-g", &group]).probe();
    }

    /// Returns the account so far.
    pub fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the path of a file or directory kept between runs.
    pub fn target(&self, name: &str) -> PathBuf {
        self.root.join("target").join(name)
    }

    /// Returns the directory of the programs that are installed for the tests. All clones of a user share it: each would take
    /// minutes to build them.
    pub fn tools(&self) -> PathBuf {
        let at = |name, rest: &str| Some(Path::new(&std::env::var_os(name)?).join(rest));
        let cache = at("XDG_CACHE_HOME", "").or_else(|| at("HOME", ".cache"));
        cache.map_or_else(|| self.target("tools"), |cache| cache.join("millrace-tools"))
    }

    /// Prepares `program`, in the workspace's root.
    pub fn command(&self, program: &str) -> Run<'_> {
        let gives_way = self.gives_way.load(Ordering::Relaxed);
        let mut command = Command::new(if gives_way { "nice" } else { program });
        if gives_way {
            command.args(["-n", "19", program]);
        }
        command.current_dir(&self.root);
        // Cargo's variables describe this program, not the one started: that may use another toolchain, or be a test
        // that looks at its own package.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            let ours = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"].iter().any(|p| name.starts_with(p));
            if ours || ["CARGO", "LD_LIBRARY_PATH", "RUSTUP_TOOLCHAIN", "RUST_RECURSION_COUNT"].contains(&&*name) {
                command.env_remove(&*name);
            }
        }
        let mut path = OsString::from(self.tools().join("bin"));
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        command.env("PATH", path);
        let shown = Path::new(program).file_name().map_or(program.into(), |name| name.to_string_lossy()).into_owned();
        Run { context: self, command, name: None, shown }
    }

    /// Prepares `cargo` with `arguments`.
    pub fn cargo(&self, arguments: &[&str]) -> Run<'_> {
        self.command("cargo").args(arguments)
    }

    /// Replaces a file of the workspace.
    pub fn write(&self, path: &str, text: &str) -> Result<(), Failure> {
        std::fs::write(self.root.join(path), text).map_err(|e| Failure(format!("cannot write {path}: {e}")))?;
        println!("wrote {path}");
        Ok(())
    }
}

/// A program to run.
pub struct Run<'c> {
    context: &'c Context,
    command: Command,
    name: Option<String>,
    shown: String,
}

impl Run<'_> {
    pub fn args(mut self, arguments: &[&str]) -> Self {
        self.command.args(arguments);
        for argument in arguments {
            self.shown = format!("{} {argument}", self.shown);
        }
        self
    }

    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        let value = value.into();
        self.shown = format!("{name}={:?} {}", value, self.shown);
        self.command.env(name, value);
        self
    }

    /// Names it in the list of times, instead of the whole command.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Runs it in a directory, instead of the workspace's root.
    pub fn inside(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Runs it, passes its output on and counts the tests in it.
    pub fn run(mut self) -> Result<(), Failure> {
        if self.context.aside {
            return self.run_aside();
        }
        println!("+ {}", self.shown);
        let began = Instant::now();
        let mut child = self.command.stdout(Stdio::piped()).spawn().map_err(|e| self.cannot(&e))?;
        let output = child.stdout.take().expect("it was asked for");
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            self.count(&line);
        }
        let status = child.wait().map_err(|e| self.cannot(&e))?;
        self.ended(began.elapsed(), status)
    }

    /// Like [`Run::run`], beside others: shows its output, of both streams, in one piece when it has ended. A program that
    /// hangs is killed, and its output tells where.
    pub fn run_aside(mut self) -> Result<(), Failure> {
        let began = Instant::now();
        // Not a pipe: a process left behind could keep its other end open.
        let mut output = tempfile::tempfile().map_err(|e| self.cannot(&e))?;
        let both = output.try_clone().and_then(|one| Ok([one, output.try_clone()?]));
        let [to, errors_to] = both.map_err(|e| self.cannot(&e))?;
        let mut child = self.command.stdout(to).stderr(errors_to).spawn().map_err(|e| self.cannot(&e))?;
        let status = end_of(&mut child, began + LIMIT).map_err(|e| self.cannot(&e))?;
        let mut said = Vec::new();
        output.rewind().and_then(|()| output.read_to_end(&mut said)).map_err(|e| self.cannot(&e))?;
        let said = String::from_utf8_lossy(&said);
        said.lines().for_each(|line| self.count(line));
        println!("+ {}\n{said}", self.shown);
        let Some(status) = status else {
            return Err(Failure(format!("`{}` was killed after {} minutes", self.shown, LIMIT.as_secs() / 60)));
        };
        self.ended(began.elapsed(), status)
    }

    fn count(&self, line: &str) {
        if let Some(now) = Tests::parse(line) {
            let sum = &mut self.context.account().tests;
            *sum = [*sum, now].into_iter().sum();
        }
    }

    fn ended(&self, time: Duration, status: ExitStatus) -> Result<(), Failure> {
        let name = self.name.as_ref().unwrap_or(&self.shown);
        self.context.account().times.push((name.clone(), time));
        if status.success() { Ok(()) } else { Err(Failure(format!("`{}` failed: {status}", self.shown))) }
    }

    /// Runs it and returns its standard output.
    pub fn output(mut self) -> Result<String, Failure> {
        let done = self.command.stderr(Stdio::inherit()).output().map_err(|e| self.cannot(&e))?;
        if !done.status.success() {
            return Err(Failure(format!("`{}` failed: {}", self.shown, done.status)));
        }
        String::from_utf8(done.stdout).map_err(|e| Failure(format!("`{}` wrote no text: {e}", self.shown)))
    }

    /// Like [`Run::output`], with its time listed.
    pub fn timed_output(self) -> Result<String, Failure> {
        println!("+ {}", self.shown);
        let (context, name, began) = (self.context, self.shown.clone(), Instant::now());
        let output = self.output();
        context.account().times.push((name, began.elapsed()));
        output
    }

    /// Returns its standard output if it can be run and succeeds; shows nothing.
    pub fn probe(mut self) -> Option<String> {
        let done = self.command.stderr(Stdio::null()).output().ok()?;
        done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
    }

    fn cannot(&self, error: &std::io::Error) -> Failure {
        Failure(format!("cannot run `{}`: {error}", self.shown))
    }
}

/// Waits for the end of a program. Kills it at the deadline, and returns nothing.
fn end_of(child: &mut Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let mut endless = Command::new("sleep").arg("1000").spawn().unwrap();
        assert_eq!(end_of(&mut endless, Instant::now()).unwrap(), None);
        let mut short = Command::new("true").spawn().unwrap();
        assert!(end_of(&mut short, Instant::now() + LIMIT).unwrap().unwrap().success());
    }

    #[test]
    fn results_are_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s";
        assert_eq!(Tests::parse(line), Some(Tests { passed: 12, failed: 3 }));
        let line = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 4 filtered out; finished in 0.00s";
        assert_eq!(Tests::parse(line), Some(Tests::default()));
        assert_eq!(Tests::parse("test copy ... ok"), None);
    }
}
