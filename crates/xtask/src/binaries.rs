//! The test binaries of the workspace. Cargo builds them, and those that are built run while it builds the others: a build
//! needs the processors, and most tests wait.

use crate::command::{Context, Run};
use crate::durations::Durations;
use crate::failure::Failure;
use crate::pool;
use crate::since::Reach;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Packages whose integration tests start programs, their own or others': these run when everything is built.
const START_PROGRAMS: [&str; 4] = ["e2e", "millrace", "nf", "testbed"];

/// Binaries that run at once, for each processor, and tests that run at once in one that starts programs: tests that wait leave the
/// processors to those that have a turn (`lab::cpu::turn`), but if there are too many, they make each other slow.
const BINARIES: usize = 2;
const THREADS: usize = 2;

/// A test binary.
struct Binary {
    /// Directory of its package.
    package: PathBuf,
    /// Name of its target: a library, a program, or a file of integration tests.
    target: String,
    is_integration: bool,
    program: String,
}

/// Binaries that are built and wait to be run.
pub struct Shelf {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    waiting: Vec<Binary>,
    is_building: bool,
    /// The static library of `paflow-abi`. The driver for DPDK is built with it: cargo would build it again on its own, as its
    /// dependencies then have other features.
    library: Option<String>,
}

impl Shelf {
    /// Returns the empty shelf, for a build that will begin.
    pub fn new() -> Shelf {
        let state = State { waiting: Vec::new(), is_building: true, library: None };
        Shelf { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, binary: Binary) {
        self.state().waiting.push(binary);
        self.changed.notify_all();
    }

    /// Says that nothing more is built.
    fn close(&self) {
        self.state().is_building = false;
        self.changed.notify_all();
    }

    /// Takes the binary that can run now and takes longest; waits for it. Returns `None` when all are taken and nothing more is built.
    fn take(&self, durations: &Durations) -> Option<Binary> {
        let mut state = self.state();
        loop {
            let can_run = |binary: &Binary| !state.is_building || !binary.starts_programs();
            let ready = state.waiting.iter().enumerate().filter(|(_, binary)| can_run(binary));
            if let Some((at, _)) = ready.max_by_key(|(_, binary)| durations.of(&binary.name())) {
                return Some(state.waiting.swap_remove(at));
            }
            if !state.is_building {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Builds the test binaries, and the programs that tests start: those of packages that have integration tests. Puts those within
/// reach on the shelf.
pub fn build(context: &Context, shelf: &Shelf, reach: &Reach) -> Result<(), Failure> {
    let words = ["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    let mut found = false;
    let built = context.cargo(&words).named("cargo test --no-run").each_line(|line| {
        let Ok(message) = serde_json::from_str::<Value>(line) else { return };
        if let Some(library) = static_library(&message) {
            shelf.state().library = Some(library);
        }
        let Some(binary) = Binary::of(&message) else { return };
        found = true;
        if reach.has(&binary.package(), &binary.target) {
            shelf.put(binary);
        }
    });
    shelf.close();
    built?;
    if found { Ok(()) } else { Err("cargo names no test binaries".into()) }
}

/// Runs the binaries that come to the shelf.
pub fn run(context: &Context, shelf: &Shelf) -> Result<(), Failure> {
    let durations = Durations::stored(context)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    pool::run(BINARIES * processors, || {
        let run = shelf.take(&durations)?.run(context);
        Some(match &shelf.state().library {
            Some(library) => run.env("PAFLOW_ABI", library),
            None => run,
        })
    })
}

/// Parses cargo's message about a build product, if that is the static library of `paflow-abi`.
fn static_library(message: &Value) -> Option<String> {
    let mut files = message["filenames"].as_array().filter(|_| message["target"]["name"] == "paflow_abi")?.iter();
    files.find_map(|file| file.as_str().filter(|file| file.ends_with(".a")).map(str::to_owned))
}

impl Binary {
    /// Parses cargo's message about a build product, if that is a test binary.
    fn of(message: &Value) -> Option<Binary> {
        let program = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
        let package = Path::new(message["manifest_path"].as_str()?).parent()?;
        Some(Binary {
            package: package.to_owned(),
            target: message["target"]["name"].as_str()?.to_owned(),
            is_integration: message["target"]["kind"][0] == "test",
            program: program.to_owned(),
        })
    }

    /// Returns the name of its package's folder.
    fn package(&self) -> String {
        self.package.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn name(&self) -> String {
        let place = if self.is_integration { "tests/" } else { "" };
        format!("{}: {place}{}", self.package(), self.target)
    }

    fn starts_programs(&self) -> bool {
        self.is_integration && START_PROGRAMS.iter().any(|package| self.package.ends_with(package))
    }

    fn run<'c>(&self, context: &'c Context) -> Run<'c> {
        // Cargo puts programs beside the directory of the test binaries.
        let built = || Path::new(&self.program).ancestors().nth(2).unwrap_or(Path::new("")).join("millrace");
        let program = std::env::var_os("MILLRACE").unwrap_or_else(|| built().into());
        let run = context.command(&self.program).inside(&self.package).env("MILLRACE", program).named(self.name());
        // The same cases each time: a check finds what a change broke, and does not depend on luck. `cargo test` searches further.
        let run = run.env("PROPTEST_RNG_SEED", "1");
        if self.starts_programs() { run.env("RUST_TEST_THREADS", THREADS.to_string()) } else { run }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what cargo says of a binary.
    fn message(package: &str, test: bool, kind: &str) -> Value {
        serde_json::json!({
            "reason": "compiler-artifact", "manifest_path": format!("/w/crates/{package}/Cargo.toml"),
            "profile": { "test": test }, "target": { "name": "ports", "kind": [kind] },
            "executable": "/w/target/debug/deps/ports-1",
        })
    }

    #[test]
    fn cargos_words_are_understood() {
        let binary = Binary::of(&message("e2e", true, "test")).unwrap();
        assert_eq!((binary.name().as_str(), binary.starts_programs()), ("e2e: tests/ports", true));
        let library = Binary::of(&message("e2e", true, "lib")).unwrap();
        assert_eq!((library.name().as_str(), library.starts_programs()), ("e2e: ports", false));
        assert!(Binary::of(&message("e2e", false, "bin")).is_none());
    }

    #[test]
    fn the_longest_that_can_run_is_next() {
        let (shelf, durations) = (Shelf::new(), Durations::of_last([("nf: ports", 1.0), ("engine: ports", 2.0)]));
        let put = |package, kind| shelf.put(Binary::of(&message(package, true, kind)).unwrap());
        let take = || shelf.take(&durations).map(|binary| binary.name());
        put("e2e", "test");
        put("nf", "lib");
        put("engine", "lib");
        assert_eq!([take(), take()].map(Option::unwrap), ["engine: ports", "nf: ports"]);
        shelf.close();
        assert_eq!(take().unwrap(), "e2e: tests/ports");
        assert_eq!(take(), None);
    }
}
