//! Manual pages and completions of the sample programs.

use std::fs;
use std::process::Command;

#[test]
fn each_program_has_them() {
    let programs = [
        env!("CARGO_BIN_EXE_nf-forward"),
        env!("CARGO_BIN_EXE_nf-macswap"),
        env!("CARGO_BIN_EXE_nf-proxy"),
        env!("CARGO_BIN_EXE_nf-responder"),
        env!("CARGO_BIN_EXE_nf-router"),
    ];
    let directory = tempfile::tempdir().unwrap();
    for program in programs {
        let name = program.rsplit('/').next().unwrap();
        let run = |arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().unwrap();
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        run(&["--manual", directory.path().to_str().unwrap()]);
        let page = fs::read_to_string(directory.path().join(format!("{name}.1"))).unwrap().replace("\\-", "-");
        assert!(page.contains(&name.to_uppercase()) && page.contains("--queue-size"), "{page}");
        let script = run(&["--completions", "bash"]);
        assert!(script.contains(name) && script.contains("--queue-size"), "{script}");
    }
}
