//! The part of the workspace that a change can reach: the packages whose files changed, all that depend on them, and the tests that read
//! files outside of packages.

use crate::command::Context;
use crate::failure::Failure;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Files outside of packages, by the beginning or the end of their path, and the test binaries that read or build them: a package
/// and a target, or a package alone for all of its.
const READ_BY: &[(&str, &[(&str, &str)])] = &[
    ("docs/", DOCUMENTS),
    (".md", DOCUMENTS),
    ("wireshark/", &[("e2e", "aggregation"), ("e2e", "docs")]),
    ("packaging/", &[("millrace", "program")]),
    ("kmod/", &[("e2e", "exchange")]),
    ("clients/go/", &[("e2e", "live")]),
    ("dpdk/net_paflow/", &[("e2e", "aggregation"), ("e2e", "docs"), ("paflow-abi", "")]),
    ("dpdk/port/", &[("dpdk", "devices")]),
    ("sim/", &[("testbed", "simulate"), ("e2e", "aggregation")]),
    ("bench/scenarios/", &[("testbed", "scenario"), ("testbed", "testbed")]),
];

const DOCUMENTS: &[(&str, &str)] = &[
    ("e2e", "docs"),
    ("engine", "documented"),
    ("millrace", "millrace"),
    ("testbed", "testbed"),
    ("xtask", "architecture"),
    ("xtask", "papers"),
];

/// Files that everything is built by.
const BUILT_BY: [&str; 4] = ["Cargo.toml", "Cargo.lock", ".cargo/", "rustfmt.toml"];

/// Steps of `cargo xtask verify`, with the packages that they build and the files that they read.
const VERIFIED: &[(&str, &[&str], &[&str])] = &[
    ("miri", &["packet", "virtqueue", "roles"], &[]),
    ("loom", &["handover", "virtqueue", "roles"], &[]),
    ("instructions", &["virtqueue", "openflow", "roles", "engine"], &["bench/baseline/"]),
    ("fuzz", &["capture", "openflow", "packet", "paflow", "vhost-user", "virtqueue"], &["fuzz/"]),
    ("dependencies", &[], &["deny.toml", "Cargo.toml", "Cargo.lock"]),
];

/// The reach of a change.
pub enum Reach {
    /// Everything.
    All,
    /// Some of it.
    Part {
        /// The files that changed.
        changed: Vec<String>,
        /// Packages, by the names of their folders.
        packages: BTreeSet<String>,
        /// Test binaries of other packages: package and target.
        binaries: BTreeSet<(String, String)>,
    },
}

impl Reach {
    /// Returns the reach of the files that differ from revision `since`, including files that git does not know yet.
    pub fn since(context: &Context, since: &str) -> Result<Reach, Failure> {
        let git = |words: &[&str]| context.command("git").args(words).output();
        let changed =
            git(&["diff", "--name-only", since, "--"])? + &git(&["ls-files", "--others", "--exclude-standard"])?;
        let metadata = context.cargo(&["metadata", "--format-version", "1", "--no-deps"]).output()?;
        let metadata = serde_json::from_str(&metadata).map_err(|e| format!("cargo metadata: {e}"))?;
        Ok(Reach::of(changed.lines().map(str::to_owned).collect(), &users(&metadata)))
    }

    fn of(changed: Vec<String>, users: &Users) -> Reach {
        if changed.iter().any(|path| BUILT_BY.iter().any(|by| path.starts_with(by))) {
            return Reach::All;
        }
        let (mut packages, mut binaries) = (BTreeSet::new(), BTreeSet::new());
        for path in &changed {
            if let Some((package, _)) = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/')) {
                reach(package, users, &mut packages);
            }
            for (_, readers) in READ_BY.iter().filter(|(part, _)| concerns(path, part)) {
                binaries.extend(readers.iter().map(|(package, target)| (package.to_string(), target.to_string())));
            }
        }
        Reach::Part { changed, packages, binaries }
    }

    /// Reports whether a test binary is within reach.
    pub fn has(&self, package: &str, target: &str) -> bool {
        let Reach::Part { packages, binaries, .. } = self else { return true };
        let named = |target: &str| binaries.contains(&(package.to_owned(), target.to_owned()));
        packages.contains(package) || named(target) || named("")
    }

    /// Reports whether a step has to be run. Those of `cargo xtask test` have: cargo builds only what changed.
    pub fn needs(&self, step: &str) -> bool {
        let Reach::Part { changed, packages, .. } = self else { return true };
        VERIFIED.iter().filter(|(name, ..)| *name == step).all(|(_, built, read)| {
            built.iter().any(|package| packages.contains(*package))
                || changed.iter().any(|path| read.iter().any(|part| concerns(path, part)))
        })
    }

    /// Prints what is within reach.
    pub fn describe(&self) -> String {
        match self {
            Reach::All => "The change reaches everything.".into(),
            Reach::Part { changed, packages, binaries } => {
                let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
                let others = binaries.iter().filter(|(package, _)| !packages.contains(&package.as_str()));
                let others: Vec<String> = others.map(|(package, target)| format!("{package}: {target}")).collect();
                format!(
                    "{} changed files reach these packages: {}; and these tests: {}",
                    changed.len(),
                    packages.join(" "),
                    others.join(", ")
                )
            }
        }
    }
}

/// Reports whether a path begins or ends with this part.
fn concerns(path: &str, part: &str) -> bool {
    path.starts_with(part) || path.ends_with(part)
}

/// The packages that depend on each package, by the names of their folders.
type Users = BTreeMap<String, Vec<String>>;

/// Reads the dependents of each package, for the program or for tests, from cargo's description of the workspace.
fn users(metadata: &Value) -> Users {
    let folder = |path: &Value| Some(Path::new(path.as_str()?).file_name()?.to_str()?.to_owned());
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut users = Users::new();
    for package in list(&metadata["packages"]) {
        let manifest = package["manifest_path"].as_str().and_then(|path| path.strip_suffix("/Cargo.toml"));
        let Some(user) = manifest.and_then(|path| folder(&path.into())) else { continue };
        for dependency in list(&package["dependencies"]) {
            if let Some(used) = folder(&dependency["path"]) {
                users.entry(used).or_default().push(user.clone());
            }
        }
    }
    users
}

/// Adds a package and all that depend on it.
fn reach(package: &str, users: &Users, packages: &mut BTreeSet<String>) {
    if packages.insert(package.to_owned()) {
        users.get(package).into_iter().flatten().for_each(|user| reach(user, users, packages));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach_of(changed: &[&str]) -> Reach {
        let package = |name: &str, uses: &[&str]| {
            let uses: Vec<Value> =
                uses.iter().map(|name| serde_json::json!({"path": format!("/w/crates/{name}")})).collect();
            serde_json::json!({"manifest_path": format!("/w/crates/{name}/Cargo.toml"), "dependencies": uses})
        };
        let packages = [package("engine", &["packet"]), package("e2e", &["engine"]), package("capture", &[])];
        let metadata = serde_json::json!({ "packages": packages });
        Reach::of(changed.iter().map(|path| path.to_string()).collect(), &users(&metadata))
    }

    #[test]
    fn a_change_reaches_those_that_depend_on_it() {
        let reach = reach_of(&["crates/packet/src/lib.rs"]);
        assert!(["packet", "engine", "e2e"].iter().all(|package| reach.has(package, "any")));
        assert!(!reach.has("capture", "files"));
        assert!(reach.needs("miri") && reach.needs("clippy") && !reach.needs("dependencies"));
        let reach = reach_of(&["crates/e2e/tests/ports/main.rs"]);
        assert!(reach.has("e2e", "ports") && !reach.has("engine", "engine") && !reach.needs("fuzz"));
    }

    #[test]
    fn files_outside_of_packages_reach_the_tests_that_read_them() {
        let reach = reach_of(&["kmod/zcopy/zcopy.c", "README.md"]);
        assert!(reach.has("e2e", "exchange") && reach.has("e2e", "docs") && !reach.has("e2e", "ports"));
        assert!(reach_of(&["Cargo.lock"]).has("capture", "files"));
        assert!(reach_of(&["fuzz/Cargo.lock"]).needs("fuzz") && reach_of(&["fuzz/Cargo.lock"]).needs("dependencies"));
    }

    #[test]
    fn the_tests_named_here_exist() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (package, target) in READ_BY.iter().flat_map(|(_, readers)| *readers) {
            let tests = crates.join(package).join("tests");
            let found =
                tests.join(target).is_dir() || tests.join(format!("{target}.rs")).is_file() || package == target;
            assert!(found, "there is no test {target} in {package}");
        }
    }
}
