//! A switch, and proxies at its ports.

use std::path::PathBuf;
use std::process::Command;

use lab::Result;
use lab::millrace::config::*;
use lab::process::Daemon;

use e2e::{Home, SOON};

/// The forms of a rig.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub mtu: usize,
    pub exchanges: bool,
}

/// Returns the configuration of a switch whose ports `near` and `far` have proxies.
pub fn config(form: Form) -> RawFile {
    let group = || RawExchange { buffer_size: 9216.into(), ..exchange(["near", "far"]) };
    file((patched("near", "far"), form.exchanges.then(group), sleeper()))
}

/// Starts a proxy at a port: host `number` of the network 10.0.0.0/24.
pub fn proxy(home: &Home, port: &str, number: u8, form: Form, services: &[&str]) -> Result<Daemon> {
    let mut command = Command::new(e2e::function("nf-proxy"));
    command.arg(home.socket(port)).args(["--mac", &format!("02:00:00:00:00:0{number}")]);
    command.args(["--ip", &format!("10.0.0.{number}/24"), "--mtu", &form.mtu.to_string()]).args(services);
    if form.exchanges {
        command.arg("--exchange");
    }
    let mut proxy = Daemon::spawn(format!("the proxy at {port}"), command)?;
    proxy.wait_for_line("the proxy to run", SOON, |line| line.starts_with("memory: "))?;
    Ok(proxy)
}

/// Starts the proxy that serves Redis.
pub fn far(home: &Home, form: Form) -> Result<Daemon> {
    proxy(home, "far", 2, form, &["--serve", &format!("6379=unix:{}", home.path("redis").display())])
}

/// Starts the proxy that reaches it, at [`local`].
pub fn near(home: &Home, form: Form) -> Result<Daemon> {
    proxy(home, "near", 1, form, &["--reach", &format!("unix:{}=10.0.0.2:6379", local(home).display())])
}

/// Returns the socket at which clients find Redis.
pub fn local(home: &Home) -> PathBuf {
    home.path("local")
}

/// Ends a proxy, and returns the counters that it prints.
pub fn end(proxy: Daemon) -> Result<String> {
    Ok(proxy.last_words(SOON)?.join("\n"))
}
