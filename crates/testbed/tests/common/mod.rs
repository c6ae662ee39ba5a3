//! Helpers that tests of the program share.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the program named by the environment variable MILLRACE, or the one that cargo builds beside `testbed`.
pub fn millrace() -> PathBuf {
    let build = || {
        let build = Command::new(env!("CARGO")).args(["build", "--quiet", "--workspace", "--bins"]).status();
        assert!(build.expect("cargo runs").success(), "Millrace does not build");
        Path::new(env!("CARGO_BIN_EXE_testbed")).with_file_name("millrace")
    };
    std::env::var_os("MILLRACE").map_or_else(build, PathBuf::from)
}
