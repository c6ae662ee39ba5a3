//! A line with its server and everything in between.

use super::benchmark::{Load, Sample};
use super::error::RedisError;
use super::line::Line;
use super::options::Redis;
use super::processes::{benchmark, proxy, server};
use crate::hosts::{ADDRESSES, Between, Hosts, Setup};
use crate::millrace::{self, Idle};
use crate::surroundings::Surroundings;
use lab::millrace::config::{RawExchange, RawFile, RawWorker, exchange, file, patch, vhost_user};
use lab::millrace::{Files, Millrace};
use lab::process::{Daemon, Interrupt};
use std::path::PathBuf;
use tempfile::TempDir;

/// Bytes of a frame's Ethernet header.
const ETHERNET: u16 = 14;

/// Programs of this workspace.
pub struct Programs {
    /// Millrace.
    pub millrace: PathBuf,
    /// nf-proxy.
    pub proxy: PathBuf,
}

/// A line that stands.
pub struct Rig {
    line: Line,
    /// Options of redis-benchmark that name the server.
    address: [String; 2],
    client_cpu: usize,
    /// The switch between proxies.
    switch: Option<Millrace>,
    _processes: Vec<Daemon>,
    hosts: Option<Hosts>,
    _directory: TempDir,
}

impl Rig {
    /// Starts everything.
    pub fn start(
        line: Line,
        mtu: u16,
        programs: &Programs,
        options: &Redis,
        interrupt: &Interrupt,
    ) -> Result<Rig, RedisError> {
        let directory = tempfile::Builder::new().prefix("testbed-").tempdir().map_err(RedisError::Directory)?;
        let builder = Builder { line, mtu, programs, options, interrupt, directory };
        match line.between() {
            Some(between) => builder.kernel(between),
            None => builder.proxies(),
        }
    }

    /// Returns its line.
    pub fn line(&self) -> Line {
        self.line
    }

    /// Runs a load to its end.
    pub fn benchmark(&self, load: Load, interrupt: &Interrupt) -> Result<Vec<Sample>, RedisError> {
        let host = self.hosts.as_ref().map(|hosts| &hosts.ends[0]);
        benchmark(&self.address, host, load, self.client_cpu, interrupt)
    }

    /// Fails if frames did not go the way that the line's name says.
    pub fn check(&mut self) -> Result<(), RedisError> {
        let Some(switch) = self.switch.as_mut().filter(|_| self.line == Line::Exchange) else { return Ok(()) };
        let groups = switch.stats()?.exchanges;
        let exchanged: u64 = groups.iter().flat_map(|group| &group.pairs).map(|pair| pair.exchanged).sum();
        if exchanged > 0 { Ok(()) } else { Err(RedisError::NotExchanged(self.line)) }
    }
}

struct Builder<'b> {
    line: Line,
    mtu: u16,
    programs: &'b Programs,
    options: &'b Redis,
    interrupt: &'b Interrupt,
    directory: TempDir,
}

impl Builder<'_> {
    /// Joins two proxies, each with a local socket.
    fn proxies(self) -> Result<Rig, RedisError> {
        let Redis { server_cpu, client_cpu, .. } = *self.options;
        let path = |name: &str| self.directory.path().join(name).display().to_string();
        let switch = self.switch()?;
        let proxied = |port: &str, number: u8, option: &str, service: String, cpu| {
            let (mac, ip) = (format!("02:00:00:00:00:0{number}"), format!("10.0.0.{number}/24"));
            let mut words = vec![path(&format!("{port}.sock"))];
            let named = [("--mac", mac), ("--ip", ip), ("--mtu", self.mtu.to_string()), (option, service)];
            words.extend(named.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
            words.extend((self.line == Line::Exchange).then(|| "--exchange".to_owned()));
            proxy(&self.programs.proxy, &words, cpu, self.interrupt)
        };
        let redis = server(&["--port", "0", "--unixsocket", &path("redis")], None, server_cpu, self.interrupt)?;
        let processes = vec![
            redis,
            proxied("b", 2, "--serve", format!("6379=unix:{}", path("redis")), server_cpu)?,
            proxied("a", 1, "--reach", format!("unix:{}=10.0.0.2:6379", path("local")), client_cpu)?,
        ];
        switch.wait_all_up(|| Ok(()))?;
        let address = ["-s".to_owned(), path("local")];
        Ok(self.rig(address, Some(switch), processes, None))
    }

    /// Joins two hosts.
    fn kernel(self, between: Between) -> Result<Rig, RedisError> {
        let Redis { server_cpu, switch_cpu: cpu, .. } = *self.options;
        let (millrace, directory) = (&*self.programs.millrace, self.directory.path());
        let hosts = Hosts::join(&Setup {
            between,
            mtu: self.mtu,
            segments: false,
            cpu,
            millrace,
            directory,
            interrupt: self.interrupt,
        })?;
        let redis = server(&["--bind", ADDRESSES[1]], Some(&hosts.ends[1]), server_cpu, self.interrupt)?;
        Ok(self.rig(["-h", ADDRESSES[1]].map(str::to_owned), None, vec![redis], Some(hosts)))
    }

    fn switch(&self) -> Result<Millrace, RedisError> {
        let files = Files::named(self.directory.path(), "m");
        let configuration = configuration(self.line, self.mtu, self.options.switch_cpu);
        Ok(millrace::start(&self.programs.millrace, files, configuration, Surroundings::default(), self.interrupt)?)
    }

    fn rig(self, address: [String; 2], switch: Option<Millrace>, processes: Vec<Daemon>, hosts: Option<Hosts>) -> Rig {
        Rig {
            line: self.line,
            address,
            client_cpu: self.options.client_cpu,
            switch,
            _processes: processes,
            hosts,
            _directory: self.directory,
        }
    }
}

fn configuration(line: Line, mtu: u16, cpu: usize) -> RawFile {
    // No smaller than the proxies' own buffers.
    let buffer_size = i64::from((mtu + ETHERNET).max(2048)).into();
    let group = (line == Line::Exchange).then(|| RawExchange { buffer_size, ..exchange(["a", "b"]) });
    // The worker shares its processor: it rests at once.
    let worker = RawWorker { patience: "0s".into(), ..Idle::Sleep.worker(cpu) };
    file((vhost_user("a"), vhost_user("b"), patch("a", "b"), group, worker))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn millrace_takes_the_configurations() {
        for line in [Line::Copy, Line::Exchange] {
            for mtu in [1500, 9000] {
                millrace::assert_takes(configuration(line, mtu, 0));
            }
        }
    }
}
