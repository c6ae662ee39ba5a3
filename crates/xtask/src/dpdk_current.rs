//! Guests with a newer DPDK than this machine has: that of a later Debian, whose files are all that the guests see.

use crate::command::Context;
use crate::debian::Debian;
use crate::failure::Failure;
use std::collections::BTreeSet;

/// The release of Debian.
const SUITE: &str = "trixie";

/// The package with dpdk-testpmd. It depends on all drivers.
const TESTPMD: &str = "dpdk-dev";

/// Packages of the system that the guests see: the directories, the program that starts testpmd, and testpmd.
const PACKAGES: [&str; 3] = ["base-files", "coreutils", TESTPMD];

/// Words that the guests print before their version.
const TOLD: &str = "with DPDK ";

/// Downloads the packages, and runs the tests that are named after DPDK or testpmd. Left out are those of what has the DPDK of this
/// machine: other switches, and our driver below a DPDK application, which is in another suite.
pub fn check(context: &Context) -> Result<(), Failure> {
    let debian = Debian::of_this_processor(context, SUITE, &context.target("dpdk-current"))?;
    let wanted = debian.version(TESTPMD)?;
    let files = debian.files(&PACKAGES)?;
    let suites = ["guests", "live", "mapping", "ports", "dpdk"].map(|suite| format!("--test={suite}"));
    let tests = context.cargo(&["test", "--no-fail-fast", "--package=millrace-e2e", "--package=millrace-vhost-user"]);
    // Guests and switch poll: two tests at once would only wait for each other.
    let tests = tests.args(&suites.each_ref().map(String::as_str)).args(&["--", "--show-output", "--test-threads=1"]);
    let tests = tests
        .args(&["dpdk", "testpmd", "--skip=peers::"])
        .env("MILLRACE_DPDK_ROOT", files)
        .named(format!("tests {TOLD}{wanted}"));
    let (mut said, mut versions) = (Vec::new(), BTreeSet::new());
    let passed = tests.each_line(|line| {
        said.push(line.to_owned());
        versions.extend(line.split_once(TOLD).map(|(_, version)| version.to_owned()));
    });
    // The tests say much, of interest if one fails.
    said.iter().filter(|line| passed.is_err() || line.starts_with("test ")).for_each(|line| println!("{line}"));
    passed?;
    match versions.iter().eq([&wanted]) {
        true => Ok(()),
        false => Err(format!("guests had the versions {versions:?} of DPDK, not {wanted} alone").into()),
    }
}
