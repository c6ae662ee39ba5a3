//! Files moved over TCP.

use crate::guest::{self, Vm};
use crate::{Home, SOON};
use lab::Result;
use lab::netns::Namespace;
use lab::process::Daemon;

/// Moves a file over TCP, from one namespace to an address of another.
pub fn move_file(home: &Home, from: &Namespace, to: &Namespace, address: &str) -> Result<()> {
    let path = |name: &str| home.path(name).display().to_string();
    let (silence, sent, received) = (path("silence"), path("sent"), path("received"));
    // The listener closes when its input ends, so its input is a FIFO that never ends.
    let listen = format!("rm -f {silence}; mkfifo {silence}; busybox nc -l -p 5001 <>{silence} >{received}");
    let mut command = to.command("sh");
    command.args(["-c", &listen]);
    let mut listener = Daemon::spawn("listener", command)?;
    let send = format!(
        "head -c 4194304 /dev/urandom >{sent}; \
         for try in $(seq 300); do busybox nc {address} 5001 <{sent} && exit; sleep 0.2; done; exit 1"
    );
    from.run("timeout", &["120", "sh", "-c", &send])?;
    listener.wait(SOON)?;
    assert!(std::fs::read(sent).unwrap() == std::fs::read(received).unwrap(), "the file changed on its way");
    Ok(())
}

/// Moves files of `size` random bytes both ways, and compares the checksums. `addresses` are the host's and the machine's; the
/// host's files are in `home`.
pub fn move_both_ways(host: &Namespace, vm: &Vm, addresses: [&str; 2], size: usize, home: &Home) -> Result<()> {
    let [host_address, vm_address] = addresses;
    // The listener closes when its input ends, so its input is a FIFO that never ends.
    let silence = home.path("silence");
    let silence = silence.to_str().expect("a path in UTF-8");
    let to_host = format!("mkfifo {silence}; busybox nc -l -p 5001 <>{silence} | sha256sum");
    let made = vm.check(&format!("head -c {size} /dev/urandom >/tmp/file; sha256sum </tmp/file"))?;
    let send = format!("for try in $(seq 300); do nc {host_address} 5001 </tmp/file && exit; sleep 0.2; done; exit 1");
    let job = vm.start(&send)?;
    let received = host.run("timeout", &["120", "sh", "-c", &to_host])?;
    vm.checked(job, guest::PATIENCE)?;
    assert_eq!(received.trim_end(), made, "the file from the machine to its host");

    let listen = "mkfifo /tmp/silence; nc -l -p 5001 <>/tmp/silence >/tmp/file2; sha256sum </tmp/file2";
    let job = vm.start(listen)?;
    let file = home.path("file");
    let file = file.to_str().expect("a path in UTF-8");
    let send = format!(
        "head -c {size} /dev/urandom >{file}; sha256sum <{file}; \
         for try in $(seq 300); do busybox nc {vm_address} 5001 <{file} && exit; sleep 0.2; done; exit 1"
    );
    let made = host.run("timeout", &["120", "sh", "-c", &send])?;
    assert_eq!(vm.checked(job, guest::PATIENCE)?, made.trim_end(), "the file from the host to its machine");
    Ok(())
}
