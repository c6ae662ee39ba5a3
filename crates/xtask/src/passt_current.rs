//! passt as a vhost-user backend: that of a later Debian than this machine may have, as older ones do not speak vhost-user.

use crate::command::Context;
use crate::debian::Debian;
use crate::failure::Failure;

/// The release of Debian.
const SUITE: &str = "trixie";

/// The test, which is ignored among the others.
const TEST: &str = "passt::a_guest_and_a_host_connect_through_passt";

/// Downloads passt, and runs the test with it.
pub fn check(context: &Context) -> Result<(), Failure> {
    let debian = Debian::of_this_processor(context, SUITE, &context.target("passt-current"))?;
    let wanted = debian.version("passt")?;
    let files = debian.files(&["passt"])?;
    let test = context.cargo(&["test", "--package=millrace-e2e", "--test=guests", "--", "--ignored", "--exact", TEST]);
    let test = test.env("MILLRACE_PASST_ROOT", files).named(format!("test with passt {wanted}"));
    let mut passed = false;
    test.each_line(|line| {
        println!("{line}");
        passed |= line == format!("test {TEST} ... ok");
    })?;
    if passed { Ok(()) } else { Err(format!("there is no test {TEST}").into()) }
}
