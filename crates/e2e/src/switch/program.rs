//! The programs under test: Millrace and the sample network functions, those next to the one that the environment variable
//! MILLRACE names, or else those of this workspace, in the profile of the tests, built by cargo when the first test needs
//! them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the path of the program under test.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| std::env::var_os("MILLRACE").map_or_else(|| build("millrace", "millrace"), PathBuf::from))
}

/// Returns the path of a sample network function, next to the program named by MILLRACE if that is set.
pub fn function(name: &str) -> PathBuf {
    match std::env::var_os("MILLRACE") {
        Some(program) => PathBuf::from(program).with_file_name(name),
        None => build("millrace-nf", name),
    }
}

/// Returns the path of the program that measures switches, and checks NICs.
pub fn testbed() -> PathBuf {
    build("millrace-testbed", "testbed")
}

fn build(package: &str, program: &str) -> PathBuf {
    let arguments = ["build", "--package", package, "--bin", program, "--message-format=json"];
    // With the same assertions as this test.
    let profile: &[&str] = if cfg!(debug_assertions) { &[] } else { &["--release"] };
    let output =
        Command::new(env!("CARGO")).args(arguments).args(profile).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} does not build:\n{said}");
    let messages = output.stdout.split(|&byte| byte == b'\n');
    let found =
        messages.filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok()).find_map(|message| {
            let is_program = message["target"]["name"] == program && message["target"]["kind"][0] == "bin";
            message["executable"].as_str().filter(|_| is_program).map(PathBuf::from)
        });
    found.expect("cargo names the program that it built")
}

/// Returns the path of a program of this package, which cargo builds with the tests: next to their directory.
pub fn companion(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a program has a path");
    test.parent().and_then(Path::parent).expect("cargo's directories").join(name)
}
