//! A line with its server and everything in between.

use super::benchmark::{Load, Sample};
use super::error::RedisError;
use super::line::Line;
use super::options::Redis;
use super::processes::{ServerAddress, benchmark, proxy, server};
use crate::millrace::{self, Idle};
use crate::surroundings::Surroundings;
use lab::millrace::config::{RawExchange, RawFile, RawWorker, af_packet, exchange, file, patch, vhost_user};
use lab::millrace::{Files, Millrace};
use lab::netns::Namespace;
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
    address: ServerAddress,
    client_cpu: usize,
    switch: Option<Millrace>,
    _processes: Vec<Daemon>,
    _namespaces: Vec<Namespace>,
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
        if line.has_proxies() { builder.proxies() } else { builder.kernel() }
    }

    /// Returns its line.
    pub fn line(&self) -> Line {
        self.line
    }

    /// Runs a load to its end.
    pub fn benchmark(&self, load: Load, interrupt: &Interrupt) -> Result<Vec<Sample>, RedisError> {
        benchmark(&self.address, load, self.client_cpu, interrupt)
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
        let switch = self.switch(None)?;
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
        let address = ServerAddress { options: vec!["-s".to_owned(), path("local")], namespace: None };
        Ok(self.rig(address, Some(switch), processes, Vec::new()))
    }

    /// Joins two namespaces, in a third one.
    fn kernel(self) -> Result<Rig, RedisError> {
        let ends = [Namespace::create()?, Namespace::create()?];
        let middle = Namespace::create()?;
        let mtu = self.mtu.to_string();
        for (end, (number, name)) in ends.iter().zip([(1, "veth-a"), (2, "veth-b")]) {
            let veth = ["link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", end.name()];
            middle.run("ip", &veth)?;
            middle.run("ip", &["link", "set", name, "mtu", &mtu, "addrgenmode", "none", "up"])?;
            end.run("ip", &["address", "add", &format!("10.0.0.{number}/24"), "dev", "eth0"])?;
            end.run("ip", &["link", "set", "eth0", "mtu", &mtu, "up"])?;
            if self.line == Line::Interfaces {
                // Millrace takes frames of the MTU, with their checksums.
                end.run("ethtool", &["-K", "eth0", "tso", "off", "gso", "off", "tx", "off"])?;
            }
        }
        let switch = if self.line == Line::Interfaces {
            Some(self.switch(Some(&middle))?)
        } else {
            middle.run("ip", &["link", "add", "br0", "mtu", &mtu, "type", "bridge", "stp_state", "0"])?;
            for name in ["veth-a", "veth-b"] {
                middle.run("ip", &["link", "set", name, "master", "br0"])?;
            }
            middle.run("ip", &["link", "set", "br0", "up"])?;
            None
        };
        let [clients, servers] = ends;
        let redis = server(&["--bind", "10.0.0.2"], Some(&servers), self.options.server_cpu, self.interrupt)?;
        let address = ServerAddress { options: vec!["-h".to_owned(), "10.0.0.2".to_owned()], namespace: Some(clients) };
        Ok(self.rig(address, switch, vec![redis], vec![servers, middle]))
    }

    fn switch(&self, namespace: Option<&Namespace>) -> Result<Millrace, RedisError> {
        let files = Files::named(self.directory.path(), "m");
        let surroundings = Surroundings { namespace, ..Surroundings::default() };
        let configuration = configuration(self.line, self.mtu, self.options.switch_cpu);
        Ok(millrace::start(&self.programs.millrace, files, configuration, surroundings, self.interrupt)?)
    }

    fn rig(
        self,
        address: ServerAddress,
        switch: Option<Millrace>,
        processes: Vec<Daemon>,
        namespaces: Vec<Namespace>,
    ) -> Rig {
        Rig {
            line: self.line,
            address,
            client_cpu: self.options.client_cpu,
            switch,
            _processes: processes,
            _namespaces: namespaces,
            _directory: self.directory,
        }
    }
}

fn configuration(line: Line, mtu: u16, cpu: usize) -> RawFile {
    let port = |name: &str| match line.has_proxies() {
        true => vhost_user(name),
        false => af_packet(name, &format!("veth-{name}")),
    };
    // No smaller than the proxies' own buffers.
    let buffer_size = i64::from((mtu + ETHERNET).max(2048)).into();
    let group = (line == Line::Exchange).then(|| RawExchange { buffer_size, ..exchange(["a", "b"]) });
    // The worker shares its processor: it rests at once.
    let worker = RawWorker { patience: "0s".into(), ..Idle::Sleep.worker(cpu) };
    file((port("a"), port("b"), patch("a", "b"), group, worker))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::millrace::config::Configuration;

    #[test]
    fn millrace_takes_the_configurations() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("m.toml");
        for line in [Line::Interfaces, Line::Copy, Line::Exchange] {
            for mtu in [1500, 9000] {
                std::fs::write(&file, configuration(line, mtu, 0).text()).unwrap();
                let read = ::millrace::config::Config::load(&file);
                assert!(read.is_ok(), "{read:?}");
            }
        }
    }
}
