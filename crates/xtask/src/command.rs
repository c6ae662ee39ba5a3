//! Running other programs: announced before, shown while they run or if they fail, and explained when they fail.

use crate::account::Account;
use crate::cost::Cost;
use crate::end::{End, end_of};
use crate::failure::Failure;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time limit of a program that runs alongside others. The longest takes some minutes, ten times that on a busy machine.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// Number of times that a build will be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builds {
    /// Hardly ever: the build writes neither what an incremental one would read, nor lines for debuggers. From a clean clone these
    /// take a fifth of the processor time; a failing test names its line without them.
    Once,
    /// After every change, as cargo does by itself: half the time when the engine changes, and the same files as `cargo test` has.
    Often,
}

/// The workspace, and the account of programs run there.
pub struct Context {
    pub root: PathBuf,
    builds: Builds,
    account: Mutex<Account>,
}

impl Context {
    pub fn new(builds: Builds) -> Result<Context, Failure> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = here.ancestors().nth(2).ok_or("the workspace is not where it was when this was built")?;
        Ok(Context { root: root.to_owned(), builds, account: Mutex::default() })
    }

    /// Returns a context with an account of its own.
    pub fn another(&self) -> Context {
        Context { root: self.root.clone(), builds: self.builds, account: Mutex::default() }
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
        let mut command = Command::new(program);
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
        let mut run = self.command("cargo");
        if self.builds == Builds::Once {
            run.command.envs([("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0")]);
        }
        run.args(arguments)
    }

    /// Replaces a file of the workspace.
    pub fn write(&self, path: &str, text: &str) -> Result<(), Failure> {
        std::fs::write(self.root.join(path), text).map_err(|e| format!("cannot write {path}: {e}"))?;
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

    /// Lets it find programs in a directory before all others.
    pub fn first_in_path(mut self, directory: &Path) -> Self {
        let after =
            self.command.get_envs().find_map(|(name, value)| value.filter(|_| name == "PATH")).unwrap_or_default();
        let mut path = OsString::from(directory);
        path.push(":");
        path.push(after);
        self.command.env("PATH", path);
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
    pub fn run(self) -> Result<(), Failure> {
        self.each_line(|line| println!("{line}"))
    }

    /// Runs it, gives each line of its standard output to `take` at once and counts the tests in it.
    pub fn each_line(mut self, mut take: impl FnMut(&str)) -> Result<(), Failure> {
        println!("+ {}", self.shown);
        let began = Instant::now();
        let mut child = self.command.stdout(Stdio::piped()).spawn().map_err(|e| self.cannot(&e))?;
        let output = child.stdout.take().expect("it was asked for");
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            take(&line);
            self.context.account().count(&line);
        }
        // It may have written for hours, but now it is about to end.
        let end = end_of(&mut child, Instant::now() + LIMIT).map_err(|e| self.cannot(&e))?;
        self.ended(began.elapsed(), &end)
    }

    /// Like [`Run::run`], alongside others: a line says that it has ended, and its output, of both streams, is shown in one
    /// piece if it has failed. A program that hangs is killed, and its output tells where.
    pub fn run_aside(mut self) -> Result<(), Failure> {
        let began = Instant::now();
        // Not a pipe: a process left behind could keep its other end open.
        let mut output = tempfile::tempfile().map_err(|e| self.cannot(&e))?;
        let both = output.try_clone().and_then(|one| Ok([one, output.try_clone()?]));
        let [to, errors_to] = both.map_err(|e| self.cannot(&e))?;
        let mut child = self.command.stdout(to).stderr(errors_to).spawn().map_err(|e| self.cannot(&e))?;
        let end = end_of(&mut child, began + LIMIT).map_err(|e| self.cannot(&e))?;
        let mut said = Vec::new();
        output.rewind().and_then(|()| output.read_to_end(&mut said)).map_err(|e| self.cannot(&e))?;
        let said = String::from_utf8_lossy(&said);
        let mut account = self.context.account();
        said.lines().for_each(|line| account.count(line));
        drop(account);
        let ended = self.ended(began.elapsed(), &end);
        let name = self.name.as_ref().unwrap_or(&self.shown);
        match &ended {
            Ok(()) => println!("  ok     {:>4} s  {name}", began.elapsed().as_secs()),
            Err(_) => println!("  FAILED {:>4} s  {name}\n+ {}\n{said}", began.elapsed().as_secs(), self.shown),
        }
        ended
    }

    fn ended(&self, time: Duration, end: &End) -> Result<(), Failure> {
        let name = self.name.as_ref().unwrap_or(&self.shown);
        self.context.account().costs.push((name.clone(), Cost::new(time, end.processor_time)));
        match end.status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("`{name}` failed: {status}").into()),
            None => Err(format!("`{}` was killed after {} minutes", self.shown, LIMIT.as_secs() / 60).into()),
        }
    }

    /// Runs it and returns its standard output.
    pub fn output(mut self) -> Result<String, Failure> {
        let done = self.command.stderr(Stdio::inherit()).output().map_err(|e| self.cannot(&e))?;
        if !done.status.success() {
            return Err(format!("`{}` failed: {}", self.shown, done.status).into());
        }
        String::from_utf8(done.stdout).map_err(|e| format!("`{}` wrote no text: {e}", self.shown).into())
    }

    /// Returns its standard output if it can be run and succeeds; shows nothing.
    pub fn probe(mut self) -> Option<String> {
        let done = self.command.stderr(Stdio::null()).output().ok()?;
        done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
    }

    fn cannot(&self, error: &std::io::Error) -> Failure {
        format!("cannot run `{}`: {error}", self.shown).into()
    }
}
