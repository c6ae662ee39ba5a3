//! Checks the dependencies of the workspace and its fuzzers: licences, duplicate versions, sources and advisories, by
//! cargo-deny and `deny.toml`.

use crate::command::{Context, Run};
use crate::failure::Failure;

/// Silences warnings about entries that apply to only one of the two lock files.
const QUIET: [&str; 6] =
    ["-A", "license-exception-not-encountered", "-A", "license-not-encountered", "-A", "unmatched-skip"];

/// Fails if `deny.toml` forbids something. Without the database of advisories, which needs a network, it checks the
/// rest.
pub fn check(context: &Context) -> Result<(), Failure> {
    let advisories = context.cargo(&["deny", "--config", "deny.toml", "fetch", "db"]).probe().is_some();
    let mut checks = vec!["bans", "licenses", "sources"];
    if advisories {
        checks.push("advisories");
    } else {
        println!("NOT CHECKED: advisories; their database, https://github.com/rustsec/advisory-db, can't be reached");
    }
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        deny(context, manifest)
            .args(&["check", "--hide-inclusion-graph"])
            .args(&QUIET)
            .args(&checks)
            .named(format!("cargo-deny, {manifest}"))
            .run()?;
    }
    Ok(())
}

fn deny<'c>(context: &'c Context, manifest: &str) -> Run<'c> {
    context.cargo(&["deny", "--locked", "--manifest-path", manifest, "--config", "deny.toml"])
}
