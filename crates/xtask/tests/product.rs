//! The features that the program is built with.

use std::path::Path;
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Returns the features that the engine gets from a build of these packages.
fn engine_features(packages: &[&str]) -> String {
    let cargo = Command::new(env!("CARGO"))
        .args(["tree", "--quiet", "--offline", "--edges", "features", "--invert", "millrace-engine"])
        .args(packages)
        .current_dir(ROOT)
        .output()
        .unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    String::from_utf8(cargo.stdout).unwrap()
}

#[test]
fn features_for_analysis_are_not_in_the_product() {
    let analysis = "millrace-engine feature \"analysis\"";
    assert!(!engine_features(&[]).contains(analysis), "a plain `cargo build` would compile it in");
    assert!(engine_features(&["--package", "millrace-testbed"]).contains(analysis), "or this test looks for nothing");
}

#[test]
fn all_crates_but_the_testbed_are_built_by_default() {
    let manifest = std::fs::read_to_string(Path::new(ROOT).join("Cargo.toml")).unwrap();
    let listed = manifest.split_once("default-members = [").unwrap().1.split_once(']').unwrap().0;
    let mut listed: Vec<_> = listed.split('"').filter_map(|path| path.strip_prefix("crates/")).collect();
    listed.push("testbed");
    listed.sort_unstable();
    let crates = std::fs::read_dir(Path::new(ROOT).join("crates")).unwrap();
    let mut crates: Vec<_> = crates.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    crates.sort_unstable();
    assert_eq!(listed, crates);
}
