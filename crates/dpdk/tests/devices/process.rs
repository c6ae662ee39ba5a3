//! A process of its own for each test.

use lab::netns::Namespace;
use std::process::Command;

/// Variable with the name of the test that this process is for.
const TEST: &str = "MILLRACE_DPDK_TEST";

/// Runs a test in a process of its own. Its thread has the test's name.
pub fn alone(test: impl FnOnce()) {
    run(test, |command| command);
}

/// Runs a test in a process and a network namespace of its own, in which interfaces are silent.
pub fn in_a_namespace(test: impl FnOnce()) {
    in_a_namespace_with("", test);
}

/// The same, where one driver registers memory.
pub fn in_a_namespace_with(registering: &str, test: impl FnOnce()) {
    run(test, |mut command| {
        command.env("MILLRACE_DPDK_REGISTERS", registering);
        let namespace = Namespace::create().unwrap();
        // The kernel sends nothing on new interfaces by itself.
        namespace.run("sh", &["-c", "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6"]).unwrap();
        let inside = namespace.wrap(&command);
        // It ends with its last process.
        std::mem::forget(namespace);
        inside
    });
}

fn run(test: impl FnOnce(), wrap: impl FnOnce(Command) -> Command) {
    let name = std::thread::current().name().expect("a test's thread has its name").to_owned();
    if std::env::var(TEST).is_ok_and(|this| this == name) {
        return test();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&name, "--exact", "--nocapture"]).env(TEST, &name);
    let output = wrap(command).output().unwrap();
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success(), "{}:\n{}\n{}", output.status, said[0], said[1]);
    assert!(said[0].contains("1 passed"), "{}", said[0]);
}
