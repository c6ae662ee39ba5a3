//! What the program is built with.

use std::process::Command;

/// Returns the features that the engine gets from a build of these packages.
fn engine_features(packages: &[&str]) -> String {
    let cargo = Command::new(env!("CARGO"))
        .args(["tree", "--quiet", "--offline", "--edges", "features", "--invert", "millrace-engine"])
        .args(packages)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    String::from_utf8(cargo.stdout).unwrap()
}

#[test]
fn what_only_analysis_needs_is_not_in_the_product() {
    let analysis = "millrace-engine feature \"analysis\"";
    assert!(!engine_features(&[]).contains(analysis), "a plain `cargo build` would compile it in");
    assert!(engine_features(&["--package", "millrace-testbed"]).contains(analysis), "or this test looks for nothing");
}
