//! Runs the fuzzers of the `fuzz` crate. Their corpora are kept in `target/`, so that the next run continues from them.

use crate::command::{Context, Run};
use crate::failure::Failure;
use crate::pool;
use std::sync::Mutex;

/// Runs all fuzzers, which share the time: `seconds` in all. A failing input is left in `fuzz/artifacts/`.
pub fn run(context: &Context, seconds: u32) -> Result<(), Failure> {
    let target = context.target("fuzz");
    let target = target.to_string_lossy();
    let build = ["+nightly", "fuzz", "build", "--target-dir", &target];
    context.cargo(&build).run()?;
    // Some create files. A fuzzer exits without cleaning up, so they get a directory that is removed here.
    let scratch = tempfile::tempdir().map_err(|e| format!("cannot make a directory: {e}"))?;
    let mut runs = Vec::new();
    let names = names(context)?;
    let shares = shares(seconds, names.len() as u32);
    for (name, seconds) in names.into_iter().zip(shares) {
        let corpus = context.target("fuzz-corpus").join(&name);
        std::fs::create_dir_all(&corpus).map_err(|e| format!("cannot make {}: {e}", corpus.display()))?;
        let time = format!("-max_total_time={seconds}");
        let run = ["+nightly", "fuzz", "run", "--target-dir", &target, &name, &corpus.to_string_lossy()];
        // A hang would be one in the switch, too: any input is handled in far less than a minute, however busy the
        // machine is. The same seed gives the same inputs from the same corpus: a check should find what a change
        // broke, not depend on luck. `cargo +nightly fuzz run` searches further.
        let options = ["--", &time, "-seed=1", "-timeout=60", "-max_len=4096", "-verbosity=0", "-print_final_stats=1"];
        runs.push(context.cargo(&run).args(&options).env("TMPDIR", scratch.path()).named(format!("fuzzer {name}")));
    }
    let runs = Mutex::new(runs);
    pool::run(2, || {
        let next = runs.lock().expect("it does not panic").pop();
        next.map(Run::run_aside)
    })
}

/// Shares `seconds` out among `count` fuzzers: whole seconds, at least one each.
fn shares(seconds: u32, count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(move |n| (seconds * (n + 1) / count - seconds * n / count).max(1))
}

/// Lists the fuzzers: every file in `fuzz/fuzz_targets`.
pub fn names(context: &Context) -> Result<Vec<String>, Failure> {
    let directory = context.root.join("fuzz/fuzz_targets");
    let files = std::fs::read_dir(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let name = |file: std::fs::DirEntry| Some(file.path().file_stem()?.to_str()?.to_owned());
    let mut names: Vec<String> = files.flatten().filter_map(name).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzzers_share_the_time() {
        let shares: Vec<u32> = shares(30, 11).collect();
        assert_eq!(shares.iter().sum::<u32>(), 30);
        assert!(shares.iter().all(|&seconds| (2..=3).contains(&seconds)));
    }
}
