//! The test binaries of the workspace: built by cargo, and run in two lanes.
//!
//! Binaries whose tests start a polling switch need the processors, so they run one after the other. All others run
//! beside them.

use crate::command::{Context, Failure, Run};
use crate::lanes;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Packages whose integration tests start switches that poll.
const POLLING: [&str; 2] = ["e2e", "testbed"];

/// A test binary.
struct Binary {
    /// Directory of its package.
    package: PathBuf,
    /// Name of its target: a library, a program, or a file of integration tests.
    target: String,
    is_integration: bool,
    program: String,
}

/// Builds and runs all of them, then the examples in the documentation.
pub fn run(context: &Context) -> Result<(), Failure> {
    let binaries = build(context)?;
    let (polling, others): (Vec<&Binary>, Vec<&Binary>) = binaries.iter().partition(|binary| binary.polls());
    let runs = |binaries: Vec<&Binary>| binaries.into_iter().map(|binary| binary.run(context)).collect();
    let tests = lanes::run([runs(polling), runs(others)]);
    let examples = context.cargo(&["test", "--workspace", "--doc"]).run();
    tests.and(examples)
}

fn build(context: &Context) -> Result<Vec<Binary>, Failure> {
    // This also builds the programs that tests start: those of packages that have integration tests.
    let words = ["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    let output = context.cargo(&words).timed_output()?;
    let messages = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let binaries: Vec<Binary> = messages.filter_map(|message| Binary::of(&message)).collect();
    if binaries.is_empty() { Err("cargo names no test binaries".into()) } else { Ok(binaries) }
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

    fn name(&self) -> String {
        let package = self.package.file_name().unwrap_or_default().to_string_lossy();
        let place = if self.is_integration { "tests/" } else { "" };
        format!("{package}: {place}{}", self.target)
    }

    fn polls(&self) -> bool {
        self.is_integration && POLLING.iter().any(|package| self.package.ends_with(package))
    }

    fn run<'c>(&self, context: &'c Context) -> Run<'c> {
        // Cargo puts programs beside the directory of the test binaries.
        let built = || Path::new(&self.program).ancestors().nth(2).unwrap_or(Path::new("")).join("millrace");
        let program = std::env::var_os("MILLRACE").unwrap_or_else(|| built().into());
        context.command(&self.program).inside(&self.package).env("MILLRACE", program).named(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_words_are_understood() {
        let message = |test: bool, kind: &str| {
            serde_json::json!({
                "reason": "compiler-artifact", "manifest_path": "/w/crates/e2e/Cargo.toml", "profile": { "test": test },
                "target": { "name": "ports", "kind": [kind] }, "executable": "/w/target/debug/deps/ports-1",
            })
        };
        let binary = Binary::of(&message(true, "test")).unwrap();
        assert_eq!((binary.name().as_str(), binary.polls()), ("e2e: tests/ports", true));
        let library = Binary::of(&message(true, "lib")).unwrap();
        assert_eq!((library.name().as_str(), library.polls()), ("e2e: ports", false));
        assert!(Binary::of(&message(false, "bin")).is_none());
    }
}
