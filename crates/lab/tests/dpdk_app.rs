//! The parts of the DPDK application that need no port.

use std::path::Path;
use std::process::Command;

#[test]
fn the_parts_in_c_pass_their_checks() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("parts");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = here.join("src/dpdk/app");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu17", "-O2", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-I"]).arg(&sources);
    compiler.arg(here.join("tests/dpdk_app/parts.c"));
    compiler.args(["histogram.c", "pace.c", "payload.c", "sequence.c"].map(|name| sources.join(name)));
    let built = lab::output_of(compiler.args(["-lm", "-o"]).arg(&program));
    built.and_then(|_| lab::output_of(&mut Command::new(program))).unwrap_or_else(|error| panic!("{error}"));
}
