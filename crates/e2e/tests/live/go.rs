//! The client in Go, against a switch.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Vets and tests it, without a network: it has no dependencies. What Go has compiled stays for the next run.
#[test]
fn the_client_in_go_is_sound_and_its_tests_pass() {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("clients/go");
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
    for arguments in [&["vet", "./..."][..], &["test", "-count=1", "./..."]] {
        let mut go = Command::new("go");
        go.args(arguments).current_dir(&module);
        go.env("MILLRACE", fs::canonicalize(e2e::program()).unwrap());
        go.env("GOCACHE", built.join("cache")).env("GOPATH", built.join("path"));
        go.envs([("GOFLAGS", "-mod=mod"), ("GOPROXY", "off"), ("GOTOOLCHAIN", "local"), ("GOWORK", "off")]);
        let output = go.output().unwrap_or_else(|error| panic!("go (Debian's golang-go): {error}"));
        let [said, complained] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(output.status.success(), "go {}: {}\n{said}{complained}", arguments.join(" "), output.status);
    }
}
