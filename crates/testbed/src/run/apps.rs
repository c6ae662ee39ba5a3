//! The traffic applications of a run.

use super::network::{End, Network};
use super::record::AppPlacement;
use crate::scenario::{Containers, Dimension, Point, Timing};
use lab::dpdk::Pages;
use lab::dpdk::app::App;
use lab::netns::Namespace;
use lab::process::{Daemon, Interrupt, Launch};
use lab::{Error, Result, lxc};
use loadgen::app::{self, AppReport, Rate, Role};
use loadgen::endpoint::Technique;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Time limit for an application to open its ports, and to do something it was told.
const LIMIT: Duration = Duration::from_secs(60);
/// Memory of an application on DPDK, in MiB.
pub const DPDK_MEGABYTES: u64 = 512;
/// Maximum number of packets of a pair in flight, if both ends are in one thread and no rate is given: the size of a queue.
const WINDOW: u64 = 256;

/// The traffic of one run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Rate of each sender.
    pub rate: Rate,
    /// Packets that each sender sends at most, if it has no rate: a single burst.
    pub packets: Option<u64>,
    /// Durations.
    pub timing: Timing,
}

/// Running applications.
pub struct Apps {
    senders: Vec<Daemon>,
    receivers: Vec<Daemon>,
}

/// Programs that applications run in.
pub struct Programs {
    /// This program.
    pub own: PathBuf,
    /// The application on DPDK, if it is used, and the pages of its memory.
    pub dpdk: Option<(App, Pages)>,
    /// Kind of their containers.
    pub containers: Containers,
}

impl Apps {
    /// Starts the applications of a point at the ends of this network, and waits until their ports are open.
    pub fn start(
        point: &Point,
        traffic: Traffic,
        network: &Network,
        placement: AppPlacement,
        programs: &Programs,
        interrupt: &Interrupt,
    ) -> Result<Apps> {
        let [one, other, both] = match point.dimension {
            Dimension::Throughput => [Role::Sender, Role::Receiver, Role::SenderReceiver],
            Dimension::Latency => [Role::Client, Role::Server, Role::ClientServer],
        };
        let launch = |role: Role, ends: &[End]| {
            let first = &ends[0];
            let container = &network.containers[first.container];
            let window =
                if role == both && traffic.rate == Rate::Max && traffic.packets.is_none() { WINDOW } else { 0 };
            let arguments = arguments(point, traffic, role, ends, window);
            let files = network.directory.join(format!("app{}", first.number));
            let command = programs.command(point.technique, container, &files, &arguments)?;
            Launch::measured(format!("{} {}", name(role), first.number), interrupt).spawn(command)
        };
        let mut apps = Apps { senders: Vec::new(), receivers: Vec::new() };
        if placement == AppPlacement::Joined {
            apps.senders.push(launch(both, &network.ends)?);
        } else {
            let (senders, receivers): (Vec<_>, Vec<_>) = network.ends.chunks(1).partition(|end| end[0].number % 2 == 0);
            // Receivers start first, so that nothing is lost before they run.
            apps.receivers = receivers.into_iter().map(|end| launch(other, end)).collect::<Result<_>>()?;
            apps.senders = senders.into_iter().map(|end| launch(one, end)).collect::<Result<_>>()?;
        }
        for daemon in apps.receivers.iter_mut().chain(&mut apps.senders) {
            daemon.wait_for_line("its ports", LIMIT, |line| line == app::READY)?;
        }
        Ok(apps)
    }

    /// Checks that all of them run.
    pub fn check(&mut self) -> Result<()> {
        self.receivers.iter_mut().chain(&mut self.senders).try_for_each(|daemon| daemon.check("the end of the run"))
    }

    /// Lets them send.
    pub fn go(&mut self) -> Result<()> {
        self.senders.iter_mut().try_for_each(|daemon| daemon.send_line(app::GO))
    }

    /// Waits until the measured seconds of all have begun.
    pub fn wait_measuring(&mut self, warm_up: f64) -> Result<()> {
        let limit = LIMIT + Duration::from_secs_f64(warm_up);
        let begun = |daemon: &mut Daemon| daemon.wait_for_line("its warm-up", limit, |line| line == app::MEASURING);
        self.senders.iter_mut().try_for_each(|daemon| begun(daemon).map(drop))
    }

    /// Waits until the measured seconds of one have ended.
    pub fn wait_measured(&mut self, seconds: f64) -> Result<()> {
        let limit = LIMIT + Duration::from_secs_f64(seconds);
        self.senders[0].wait_for_line("its measured seconds", limit, |line| line == app::MEASURED).map(drop)
    }

    /// Waits for their ends, and returns their reports.
    pub fn finish(self) -> Result<Vec<AppReport>> {
        let report = |daemon: Daemon| -> Result<AppReport> {
            let name = daemon.name().to_owned();
            let text = daemon.finish(LIMIT)?;
            // A program may print other lines before it.
            let line = text.lines().rev().find(|line| line.starts_with('{')).unwrap_or(&text);
            serde_json::from_str(line).map_err(Error::other(format!("reading the report of {name}")))
        };
        let mut reports = self.senders.into_iter().map(report).collect::<Result<Vec<_>>>()?;
        for mut receiver in self.receivers {
            receiver.send_line(app::STOP)?;
            reports.push(report(receiver)?);
        }
        Ok(reports)
    }

    /// Returns names and process ids, with the processes that a container consists of.
    pub fn processes(&self) -> impl Iterator<Item = (&str, u32)> {
        let all = self.senders.iter().chain(&self.receivers);
        all.flat_map(|daemon| daemon.tree().into_iter().map(|pid| (daemon.name(), pid)))
    }
}

impl Programs {
    /// Returns the command of an application; its files are in `directory`.
    fn command(
        &self,
        technique: Technique,
        container: &Namespace,
        directory: &Path,
        arguments: &[String],
    ) -> Result<Command> {
        let create = |directory: &Path| {
            std::fs::create_dir_all(directory).map_err(Error::io("making a directory for an application"))
        };
        create(directory)?;
        let command = match &self.dpdk {
            Some((app, pages)) if technique == Technique::VirtioUserDpdk => {
                app.command(*pages, DPDK_MEGABYTES, directory, arguments)
            }
            _ => {
                let mut command = Command::new(&self.own);
                command.arg("app").args(arguments);
                command
            }
        };
        match self.containers {
            Containers::Namespaces => Ok(container.wrap(&command)),
            Containers::Lxc => {
                let description = directory.join("lxc");
                create(&description)?;
                lxc::wrap(container, &description, &command)
            }
        }
    }
}

fn name(role: Role) -> &'static str {
    match role {
        Role::Sender => "sender",
        Role::Receiver => "receiver",
        Role::Client => "client",
        Role::Server => "server",
        Role::SenderReceiver => "sender-receiver",
        Role::ClientServer => "client-server",
    }
}

/// Returns the command line of an application after its name.
fn arguments(point: &Point, traffic: Traffic, role: Role, ends: &[End], window: u64) -> Vec<String> {
    let Timing { seconds, warm_up, cool_down, .. } = traffic.timing;
    let touch = match point.touch {
        app::Touch::None => "none",
        app::Touch::Header => "header",
        app::Touch::Full => "full",
    };
    let mut arguments = vec![name(role).to_owned()];
    let mut add = |option: &str, value: String| arguments.extend([format!("--{option}"), value]);
    add("technique", point.technique.to_string());
    ends.iter().for_each(|end| add("port", end.port.clone()));
    add("number", ends[0].number.to_string());
    add("size", point.size.to_string());
    add("rate", traffic.rate.to_string());
    add("arrivals", point.arrivals.to_string());
    add("burst", point.burst.to_string());
    add("touch", touch.to_owned());
    add("window", window.to_string());
    add("packets", traffic.packets.unwrap_or(0).to_string());
    add("warmup", warm_up.to_string());
    add("seconds", seconds.to_string());
    add("cooldown", cool_down.to_string());
    add("cpu", ends[0].cpu.to_string());
    arguments
}
