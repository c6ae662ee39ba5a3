//! The switch that has the device, and what is at the other end.

use super::options::NicCheck;
use super::place::{Far, Peer, Place, arguments, name};
use crate::millrace::Idle;
use crate::surroundings::Surroundings;
use engine::stats::{MappingStats, Snapshot};
use lab::Result;
use lab::guest::{Guest, Options};
use lab::millrace::config::{
    Acceleration, Dpdk, RawConfinement, RawDpdk, RawFile, RawMapping, af_packet, dpdk_devices, dpdk_port, file,
    pass_through, patch, port, vhost_user,
};
use lab::millrace::{Files, Millrace, Start};
use lab::netns::Namespace;
use lab::process::{Interrupt, Launch};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Names of the device's port, of its guest's, and of the guest at the other end; guests' sockets are named so, too.
const DEVICE: &str = "wan";
const NEAR: &str = "fw";
const FAR: &str = "far";

/// Name of the port at the other end.
const CABLE: &str = "cable";

/// Descriptors of a ring, if the switch chooses their number.
const USUAL_RING: u16 = 128;

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Number of the parts that poll: the switch, the guest, the load, and the switch at the other end.
const PARTS: usize = 4;

/// Processors of the parts.
#[derive(Clone, Copy, Debug)]
pub struct Processors {
    switch: usize,
    /// That of the guest.
    pub function: usize,
    /// That of the load at the other end.
    pub load: usize,
    peer: usize,
    is_enough: bool,
}

impl Processors {
    /// Returns those that are given, or else the first four. If they are fewer, the switch has one, and all others share another.
    pub fn of(options: &NicCheck) -> Processors {
        let all = if options.cpus.is_empty() { lab::cpu::available() } else { options.cpus.clone() };
        let is_enough = all.len() >= PARTS;
        let at = |place: usize| all[if is_enough { place } else { place.min(all.len() - 1).min(1) }];
        Processors { switch: at(0), function: at(1), load: at(2), peer: at(3), is_enough }
    }

    /// Reports whether parts share a processor.
    pub fn are_shared(self) -> bool {
        !self.is_enough
    }

    /// Returns how workers rest: one that polls needs a processor to itself.
    fn idle(self) -> Idle {
        if self.is_enough { Idle::Poll } else { Idle::Backoff }
    }
}

/// How the device's port and the guest's are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joint {
    /// Every frame is received into the guest's buffers, and sent from there, if the device can.
    Mapped,
    /// Every frame is copied.
    Copied,
}

/// Running switches.
pub struct Rig {
    switch: Millrace,
    /// The switch at the other end, with a guest of its own.
    peer: Option<Millrace>,
    options: NicCheck,
    place: Place,
    processors: Processors,
    interrupt: Interrupt,
    /// Number of the next end of a stream.
    number: u8,
    directory: TempDir,
}

impl Rig {
    /// Starts the switch, mapped, and its peer.
    pub fn start(options: &NicCheck, place: Place, program: &Path, interrupt: &Interrupt) -> Result<Rig> {
        let directory = tempfile::Builder::new().prefix("testbed-").tempdir();
        let directory = directory.map_err(lab::Error::io("making a temporary directory"))?;
        let processors = Processors::of(options);
        let start = |name: &str, namespace: &Option<Namespace>, configuration: RawFile| {
            let files = Files::named(directory.path(), if name == "Millrace" { "switch" } else { "peer" });
            files.configure(configuration)?;
            let surroundings = Surroundings { namespace: namespace.as_ref(), ..Surroundings::default() };
            let start = Start::new(program).by(surroundings.command(program)).arguments(&["--log", "info"]);
            start.launch(Launch::measured(name, interrupt)).start(files)
        };
        let [here, there] = &place.namespaces;
        let switch = start("Millrace", here, configuration(options, &place, processors, Joint::Mapped))?;
        let peer = match &place.far {
            Far::Peer(peer) => Some(start("the peer", there, opposite(options, peer, processors))?),
            Far::Looped | Far::Echo | Far::Nobody => None,
        };
        let (options, interrupt) = (options.clone(), interrupt.clone());
        Ok(Rig { switch, peer, options, place, processors, interrupt, number: 0, directory })
    }

    /// Joins the ports in another way. The guest's port is opened again.
    pub fn join(&self, joint: Joint) -> Result<()> {
        self.switch.files().configure(configuration(&self.options, &self.place, self.processors, joint))?;
        self.switch.reload().map(drop)
    }

    /// Returns the options of the check.
    pub fn options(&self) -> &NicCheck {
        &self.options
    }

    /// Returns the time to wait for what may be late.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.options.patience)
    }

    /// Returns where the device is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the number of frames after which the device has none of the buffers that its ring began with.
    pub fn turn(&self) -> u64 {
        4 * u64::from(self.options.queue_size.unwrap_or(USUAL_RING))
    }

    /// Returns the processors of the parts.
    pub fn processors(&self) -> Processors {
        self.processors
    }

    /// Returns the flag that ends the check.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Returns the sockets of all guests.
    pub fn sockets(&self) -> Vec<PathBuf> {
        let socket = |port: &str| self.directory.path().join(format!("{port}.sock"));
        std::iter::once(socket(NEAR)).chain(self.peer.iter().map(|_| socket(FAR))).collect()
    }

    /// Connects the guest whose port the device is mapped to.
    pub fn near(&self) -> Result<Guest> {
        Options::new(&self.sockets()[0]).huge_pages().connect()
    }

    /// Connects the guest at the other end, if there is one.
    pub fn far(&self) -> Result<Option<Guest>> {
        self.sockets().get(1).map(|socket| Options::new(socket).connect()).transpose()
    }

    /// Returns a number for an end of a stream that no end has had for long, so that late frames are told apart.
    pub fn number(&mut self) -> u8 {
        self.number = self.number.wrapping_add(1);
        self.number
    }

    /// Waits until the device's port is up. Returns the words of the switch: those of the port, or why it is down.
    pub fn open(&self) -> Result<std::result::Result<String, String>> {
        self.wait_port(&self.switch, DEVICE)
    }

    /// Waits until the port at the other end is up, if there is one, or returns why it is down.
    pub fn peer_opens(&self) -> Result<std::result::Result<String, String>> {
        self.peer.as_ref().map_or_else(|| Ok(Ok(String::new())), |peer| self.wait_port(peer, CABLE))
    }

    fn wait_port(&self, switch: &Millrace, name: &str) -> Result<std::result::Result<String, String>> {
        let began = Instant::now();
        loop {
            let port = switch.port(name)?.0;
            if port.up {
                return Ok(Ok(port.detail));
            }
            // Links take their time, and so does an interface that appears again.
            if began.elapsed() > self.patience() {
                return Ok(Err(port.detail));
            }
            self.interrupt.sleep(LOOK)?;
        }
    }

    /// Waits until the mapping has the guest's buffers. If it does not get them, its reason says why.
    pub fn mapped(&self) -> Result<MappingStats> {
        let began = Instant::now();
        loop {
            let mapping = self.switch.mapping()?;
            if mapping.zero_copy && mapping.on_loan > 0 || began.elapsed() > self.patience() {
                return Ok(mapping);
            }
            self.interrupt.sleep(LOOK)?;
        }
    }

    /// Returns the counters of the mapping.
    pub fn mapping(&self) -> Result<MappingStats> {
        self.interrupt.check()?;
        self.switch.mapping()
    }

    /// Returns all counters of the switch.
    pub fn stats(&self) -> Result<Snapshot> {
        self.switch.stats()
    }

    /// Returns the speed of the device in megabits per second, if it is known.
    pub fn speed(&self) -> Result<Option<u32>> {
        Ok(self.switch.port(DEVICE)?.0.interface.and_then(|interface| interface.speed))
    }

    /// Returns the version of DPDK.
    pub fn dpdk(&self) -> Option<String> {
        let devices = format!(": {}", self.place.device);
        let line = self.switch.daemon.log().find(0, |line| line.ends_with(&devices))?.1;
        let version = line.strip_suffix(&devices)?;
        Some(version[version.find("DPDK")?..].to_owned())
    }

    /// Returns the number of lines that the switch has logged.
    pub fn mark(&self) -> usize {
        self.switch.daemon.log().mark()
    }

    /// Returns what the switch had to stop to end loans since it had logged so many lines.
    pub fn stopped(&self, mark: usize) -> Option<String> {
        let line = self.switch.daemon.log().find(mark, |line| line.contains(STOPPED))?.1;
        let (words, _) = line.split_once(STOPPED)?;
        Some(words.rsplit(": ").next()?.trim_end_matches(',').to_owned())
    }

    /// Returns what the switch warned of, each with how often.
    pub fn warnings(&self) -> BTreeMap<String, usize> {
        let warning = |line: &String| {
            let (_, words) = line.split_once(" WARN ").or_else(|| line.split_once(" ERROR "))?;
            // The module comes first.
            words.split_once(": ").map(|(_, words)| words.to_owned())
        };
        let mut warnings = BTreeMap::new();
        for words in self.switch.daemon.log().since(0).iter().filter_map(warning) {
            *warnings.entry(words).or_default() += 1;
        }
        warnings
    }
}

/// The words of the switch after those that say what it stopped.
const STOPPED: &str = " to end the loans of queue 0";

/// Reports whether a port waits for its link only.
pub fn is_link(detail: &str) -> bool {
    detail.starts_with("the link of device")
}

/// Returns the section for a device, and the one that lets it reach the files that its arguments name.
fn devices(options: &NicCheck, device: &str) -> (RawDpdk, Option<RawConfinement>) {
    let files = arguments(device).map(|(_, value)| Path::new(value)).filter(|path| path.is_absolute());
    let directories: Vec<_> = files.filter_map(|path| Some(path.parent()?.display().to_string())).collect();
    let confinement = (!directories.is_empty())
        .then(|| RawConfinement { directories: directories.into_iter().collect(), ..RawConfinement::default() });
    (RawDpdk { memory: options.memory.clone().into(), ..dpdk_devices(&[device]) }, confinement)
}

/// Returns the configuration of the switch.
fn configuration(options: &NicCheck, place: &Place, at: Processors, joint: Joint) -> RawFile {
    let queue_size = options.queue_size.map(|size| i64::from(size).into()).unwrap_or_default();
    let wan = port(DEVICE, Dpdk { device: name(&place.device).into(), queue_size, ..Dpdk::default() });
    let mapping = RawMapping { copy_break: 0.into(), ..pass_through(DEVICE, NEAR) };
    let joint = match joint {
        Joint::Mapped => file(mapping),
        Joint::Copied => file(patch(DEVICE, NEAR)),
    };
    file((
        wan,
        vhost_user(NEAR),
        joint,
        devices(options, &place.device),
        Acceleration::Off,
        at.idle().worker(at.switch),
    ))
}

/// Returns the configuration of the switch at the other end.
fn opposite(options: &NicCheck, peer: &Peer, at: Processors) -> RawFile {
    let (cable, devices) = match peer {
        Peer::Interface(interface) => (af_packet(CABLE, interface), None),
        Peer::Device(device) => (dpdk_port(CABLE, name(device)), Some(devices(options, device))),
    };
    file((cable, vhost_user(FAR), patch(CABLE, FAR), devices, Acceleration::Off, at.idle().worker(at.peer)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use lab::millrace::config::Configuration;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        check: NicCheck,
    }

    #[test]
    fn millrace_takes_the_configurations() {
        let directory = tempfile::tempdir().unwrap();
        let memif = format!("net_memif0,role=client,socket={}", directory.path().join("memif.sock").display());
        for line in [&["0000:3b:00.0", "--queue-size", "256", "--peer", "lo"][..], &[&memif, "--peer", &memif]] {
            let options = Line::parse_from([&["testbed"], line].concat()).check;
            let place = Place::find(&options).unwrap();
            let Far::Peer(peer) = &place.far else { panic!("it has a peer") };
            let at = Processors::of(&options);
            let own = |joint| configuration(&options, &place, at, joint);
            for configuration in [own(Joint::Mapped), own(Joint::Copied), opposite(&options, peer, at)] {
                crate::millrace::assert_takes(configuration.clone());
                let text = configuration.text();
                assert_eq!(text.contains("[confinement]"), text.contains("memif"), "{text}");
            }
        }
    }
}
