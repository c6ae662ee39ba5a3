//! The test binaries of the workspace. Cargo builds them, and those that are built run while it builds the others: a build
//! needs the processors, and most tests wait.

use crate::command::Context;
use crate::failure::Failure;
use crate::part::{Binary, Part};
use crate::pool;
use crate::shelf::Shelf;
use crate::since::Reach;
use serde_json::Value;
use std::sync::Arc;

/// Builds the test binaries, and the programs that tests start: those of packages that have integration tests. Puts those within
/// reach on the shelf.
pub fn build(context: &Context, shelf: &Shelf, reach: &Reach) -> Result<(), Failure> {
    let words = ["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    let (mut found, mut library, mut start_programs) = (false, None, Vec::new());
    let built = context.cargo(&words).named("cargo test --no-run").each_line(|line| {
        let Ok(message) = serde_json::from_str::<Value>(line) else { return };
        library = library.take().or_else(|| static_library(&message));
        let Some(binary) = Binary::of(&message) else { return };
        found = true;
        match reach.has(&binary.package(), &binary.target) {
            true if binary.starts_programs() => start_programs.push(binary),
            true => shelf.put([Part::whole(binary)]),
            false => {}
        }
    });
    let listed = built.and_then(|()| {
        start_programs.into_iter().try_for_each(|binary| {
            shelf.put(binary.tests(context, library.clone())?);
            Ok(())
        })
    });
    shelf.close();
    listed?;
    if found { Ok(()) } else { Err("cargo names no test binaries".into()) }
}

/// Runs the programs that come to the shelf.
pub fn run(context: &Context, shelf: &Shelf) -> Result<(), Failure> {
    pool::run(shelf.at_once(), || {
        let part = shelf.take()?;
        Some(part.run(context).run_aside())
    })
}

/// Parses cargo's message about a build product, if that is the static library of `paflow-abi`.
fn static_library(message: &Value) -> Option<Arc<str>> {
    let mut files = message["filenames"].as_array().filter(|_| message["target"]["name"] == "paflow_abi")?.iter();
    files.find_map(|file| file.as_str().filter(|file| file.ends_with(".a")).map(Arc::from))
}
