//! A test binary, and the parts of it that run on their own.

use crate::command::{Context, Run};
use crate::failure::Failure;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Packages whose integration tests start programs, their own or others'. They run when everything is built, each test in a process
/// of its own: none waits for another of its binary.
const START_PROGRAMS: [&str; 4] = ["e2e", "millrace", "nf", "testbed"];

/// Packages with binaries whose tests measure: their programs poll on all processors, and would take many times as long next
/// to others that do.
const MEASURE: [(&str, &[&str]); 1] =
    [("testbed", &["aggregation", "analyse", "dpdk_app", "ovs", "ports", "scenario", "traffic"])];

/// A test binary.
pub struct Binary {
    /// Directory of its package.
    package: PathBuf,
    /// Name of its target: a library, a program, or a file of integration tests.
    pub target: String,
    /// Folder of its source, next to the library.
    place: &'static str,
    pub program: String,
}

/// A binary to be run, or one of its tests.
pub struct Part {
    binary: Arc<Binary>,
    test: Option<String>,
    /// The static library of `paflow-abi`. The driver for DPDK is built with it: cargo would build it again on its own, as its
    /// dependencies then have other features.
    library: Option<Arc<str>>,
}

impl Binary {
    /// Parses cargo's message about a build product, if that is a test binary.
    pub fn of(message: &Value) -> Option<Binary> {
        let program = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
        let package = Path::new(message["manifest_path"].as_str()?).parent()?;
        Some(Binary {
            package: package.to_owned(),
            target: message["target"]["name"].as_str()?.to_owned(),
            place: match message["target"]["kind"][0].as_str()? {
                "test" => "tests/",
                "bin" => "bin/",
                _ => "",
            },
            program: program.to_owned(),
        })
    }

    /// Returns the name of its package's folder.
    pub fn package(&self) -> String {
        self.package.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn name(&self) -> String {
        format!("{}: {}{}", self.package(), self.place, self.target)
    }

    fn is_integration(&self) -> bool {
        self.place == "tests/"
    }

    pub fn starts_programs(&self) -> bool {
        self.is_integration() && START_PROGRAMS.iter().any(|package| self.package.ends_with(package))
    }

    /// Lists its tests, without those that are ignored: such a run would pass. They get the static library of `paflow-abi`.
    pub fn tests(self, context: &Context, library: Option<Arc<str>>) -> Result<Vec<Part>, Failure> {
        let list = |which: &[&str]| self.command(context).args(&["--list", "--format=terse"]).args(which).output();
        let (all, ignored) = (list(&[])?, list(&["--ignored"])?);
        let binary = Arc::new(self);
        let part = |test: &str| Part { binary: binary.clone(), test: Some(test.to_owned()), library: library.clone() };
        Ok(listed(&all, &ignored).map(part).collect())
    }

    fn measures(&self) -> bool {
        let targets = MEASURE.iter().find(|(package, _)| self.package.ends_with(package));
        self.is_integration() && targets.is_some_and(|(_, targets)| targets.contains(&&*self.target))
    }

    fn command<'c>(&self, context: &'c Context) -> Run<'c> {
        context.command(&self.program).inside(&self.package)
    }
}

impl Part {
    /// Returns the whole binary.
    pub fn whole(binary: Binary) -> Part {
        Part { binary: Arc::new(binary), test: None, library: None }
    }

    pub fn name(&self) -> String {
        let whole = self.binary.name();
        self.test.as_ref().map_or(whole.clone(), |test| format!("{whole} {test}"))
    }

    /// Tells whether it needs all processors.
    pub fn measures(&self) -> bool {
        self.binary.measures()
    }

    /// Prepares a run of it.
    pub fn run<'c>(&self, context: &'c Context) -> Run<'c> {
        // Cargo puts programs next to the directory of the test binaries.
        let built = || Path::new(&self.binary.program).ancestors().nth(2).unwrap_or(Path::new("")).join("millrace");
        let millrace = std::env::var_os("MILLRACE").unwrap_or_else(|| built().into());
        // The same cases each time: a check finds what a change broke, and does not depend on luck. `cargo test` searches further.
        let mut run = self.binary.command(context).env("MILLRACE", millrace).env("PROPTEST_RNG_SEED", "1");
        if let Some(library) = &self.library {
            run = run.env("PAFLOW_ABI", &**library);
        }
        if let Some(test) = &self.test {
            run = run.args(&["--exact", test]);
        }
        run.named(self.name())
    }
}

/// Returns the names in a list of tests that are not in another one.
fn listed<'l>(all: &'l str, without: &'l str) -> impl Iterator<Item = &'l str> {
    let left_out = |line: &&str| !without.lines().any(|other| other == *line);
    all.lines().filter(left_out).filter_map(|line| line.strip_suffix(": test"))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn message(package: &str, test: bool, kind: &str) -> Value {
        serde_json::json!({
            "reason": "compiler-artifact", "manifest_path": format!("/w/crates/{package}/Cargo.toml"),
            "profile": { "test": test }, "target": { "name": "ports", "kind": [kind] },
            "executable": "/w/target/debug/deps/ports-1",
        })
    }

    /// Returns a file of integration tests of the package `testbed`.
    pub fn testbed(file: &str) -> Part {
        let mut message = message("testbed", true, "test");
        message["target"]["name"] = file.into();
        Part::whole(Binary::of(&message).unwrap())
    }

    /// Returns the library tests of a package.
    pub fn library_of(package: &str) -> Part {
        Part::whole(Binary::of(&message(package, true, "lib")).unwrap())
    }

    #[test]
    fn ignored_tests_are_not_listed() {
        let all = "vm::it_talks: test\nvm::it_talks_for_hours: test\nburst: benchmark\n";
        assert_eq!(listed(all, "vm::it_talks_for_hours: test\n").collect::<Vec<_>>(), ["vm::it_talks"]);
    }

    #[test]
    fn messages_of_cargo_are_parsed() {
        let binary = Binary::of(&message("e2e", true, "test")).unwrap();
        assert_eq!((binary.name().as_str(), binary.starts_programs()), ("e2e: tests/ports", true));
        let library = Binary::of(&message("e2e", true, "lib")).unwrap();
        assert_eq!((library.name().as_str(), library.starts_programs()), ("e2e: ports", false));
        assert!(Binary::of(&message("e2e", false, "bin")).is_none());
    }
}
