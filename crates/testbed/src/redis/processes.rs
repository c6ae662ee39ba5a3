//! The processes at both ends of a line.

use super::benchmark::{Load, Sample, read};
use super::error::RedisError;
use lab::netns::Namespace;
use lab::process::{Daemon, Interrupt, Launch};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Time limit for the start of a server or a proxy.
const LIMIT: Duration = Duration::from_secs(30);
/// Time limit for a measurement.
const LONG: Duration = Duration::from_secs(600);

fn command(program: &str, namespace: Option<&Namespace>) -> Command {
    namespace.map_or_else(|| Command::new(program), |namespace| namespace.command(program))
}

/// Starts a server that keeps nothing on disk.
pub fn server(
    options: &[&str],
    namespace: Option<&Namespace>,
    cpu: usize,
    interrupt: &Interrupt,
) -> Result<Daemon, RedisError> {
    let mut command = command("redis-server", namespace);
    command.args(["--save", "", "--appendonly", "no", "--protected-mode", "no"]).args(options);
    let mut server = Launch::measured("redis-server", interrupt).pin(&[cpu]).spawn(command)?;
    server.wait_for_line("Redis", LIMIT, |line| line.contains("eady to accept connections"))?;
    Ok(server)
}

/// Starts a proxy with these arguments.
pub fn proxy(program: &Path, arguments: &[String], cpu: usize, interrupt: &Interrupt) -> Result<Daemon, RedisError> {
    let mut command = Command::new(program);
    command.args(arguments);
    let mut proxy = Launch::measured("nf-proxy", interrupt).pin(&[cpu]).spawn(command)?;
    proxy.wait_for_line("the proxy", LIMIT, |line| line.starts_with("memory: "))?;
    Ok(proxy)
}

/// Runs a load to its end, in a host if there are some.
pub fn benchmark(
    address: &[String],
    host: Option<&Namespace>,
    load: Load,
    cpu: usize,
    interrupt: &Interrupt,
) -> Result<Vec<Sample>, RedisError> {
    let mut command = command("redis-benchmark", host);
    command.args(address).args(load.options());
    let clients = Launch::measured("redis-benchmark", interrupt).pin(&[cpu]).spawn(command)?;
    read(&clients.finish(LONG)?)
}
