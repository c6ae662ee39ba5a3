//! Manual pages and completions of the testbed.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs the program, by a name that a package gives it, and returns what it prints.
fn said(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn they_have_the_name_that_the_program_is_called_by() {
    let directory = tempfile::tempdir().unwrap();
    let (program, pages) = (directory.path().join("other-name"), directory.path().join("pages"));
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_testbed"), &program).unwrap();
    fs::create_dir(&pages).unwrap();
    said(&program, &["manual", pages.to_str().unwrap()]);
    let page = |name: &str| fs::read_to_string(pages.join(name)).unwrap().replace("\\-", "-");
    for part in ["OTHER-NAME 1", "nic-check", "testbed.md"] {
        assert!(page("other-name.1").contains(part), "{part}");
    }
    assert!(page("other-name-run.1").contains("--list"));
    assert!(page("other-name-aggregation-drops.1").contains("--programs"));
    for shell in ["bash", "zsh", "fish"] {
        let script = said(&program, &["completions", shell]);
        assert!(script.contains("other-name") && script.contains("nic-check"), "{shell}");
    }
    assert!(said(&program, &["--help"]).contains("Usage: other-name "));
}
