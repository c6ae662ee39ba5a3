//! A switch with a guest at each port.

use super::guest::{Guest, Message};
use lab::dpdk::Pages;
use lab::netns::{Namespace, cable};
use lab::process::Interrupt;
use lab::switch::{PortKind, Running, Setup, SwitchKind, SwitchPort};
use lab::{Result, cpu};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time limit for anything that should happen at once, however busy the machine is.
const SOON: Duration = Duration::from_secs(120);

/// Interval at which a round is tried again.
const PAUSE: Duration = Duration::from_millis(20);

/// A running switch with a guest at each port.
pub struct Rig {
    // Guests end first.
    guests: Vec<Guest>,
    running: Box<dyn Running>,
    surroundings: Surroundings,
    round: u32,
}

/// A directory for a switch, and namespaces for it and its guests.
struct Surroundings {
    directory: TempDir,
    namespace: Namespace,
    guests: Namespace,
    /// Interfaces in the switch's namespace before it started.
    interfaces: String,
}

impl Surroundings {
    /// Prepares these ports, so that a switch with them can start.
    fn new(kinds: &[PortKind]) -> Result<(Surroundings, Vec<SwitchPort>)> {
        let directory = tempfile::Builder::new().prefix("e2e-").tempdir().expect("a temporary directory can be made");
        let (namespace, guests) = (Namespace::create()?, Namespace::create()?);
        let mut ports = Vec::new();
        for (index, kind) in kinds.iter().enumerate() {
            ports.push(match kind {
                PortKind::VhostUser => SwitchPort::VhostUser(directory.path().join(format!("{index}.sock"))),
                _ => {
                    let name = format!("p{index}");
                    cable([(&namespace, &name), (&guests, &name)])?;
                    SwitchPort::Interface(name)
                }
            });
        }
        let interfaces = interfaces(&namespace)?;
        Ok((Surroundings { directory, namespace, guests, interfaces }, ports))
    }

    fn start(&self, switch: &dyn SwitchKind, ports: &[SwitchPort]) -> Result<Box<dyn Running>> {
        let plan = cpu::Plan::detect();
        let pages = if switch.megabytes() > 0 { Pages::for_dpdk(switch.megabytes()) } else { Pages::Normal };
        switch.start(&Setup {
            directory: self.directory.path(),
            host: 0,
            ports,
            namespace: &self.namespace,
            processors: &vec![plan.switch; switch.processors()],
            others: plan.guest(),
            pages,
            interrupt: &Interrupt::never(),
        })
    }

    /// Checks that a switch has left no interface and no socket of its ports.
    fn check_clean(&self) -> Result<()> {
        let deadline = Instant::now() + SOON;
        // The kernel takes its time to remove an interface.
        while interfaces(&self.namespace)? != self.interfaces {
            assert!(Instant::now() < deadline, "an interface is left: {}", interfaces(&self.namespace)?);
            std::thread::sleep(PAUSE);
        }
        let sockets = std::fs::read_dir(self.directory.path()).expect("the directory is there").flatten();
        let sockets = sockets.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
        let of_ports: Vec<_> = sockets.filter(|entry| entry.path().extension() == Some("sock".as_ref())).collect();
        assert!(of_ports.iter().all(|entry| entry.file_name() == "db.sock"), "sockets are left: {of_ports:?}");
        Ok(())
    }
}

/// Returns the interfaces of a namespace, with the bridge that each is a port of.
fn interfaces(namespace: &Namespace) -> Result<String> {
    let links = namespace.run("ip", &["-oneline", "link", "show"])?;
    let name = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    let mut names: Vec<String> = links.lines().filter_map(name).collect();
    if let Some(port) = links.lines().find(|line| line.contains(" master ")) {
        names.push(port.to_owned());
    }
    names.sort();
    Ok(names.join(" "))
}

impl Rig {
    /// Starts the switch with a port of each of these kinds, and connects the guests.
    pub fn new(switch: &dyn SwitchKind, kinds: &[PortKind]) -> Result<Rig> {
        let (surroundings, ports) = Surroundings::new(kinds)?;
        let mut running = surroundings.start(switch, &ports)?;
        running.commands().iter().for_each(|line| println!("  {line}"));
        assert!(!running.commands().is_empty());
        let connect = |port: &SwitchPort| match port {
            SwitchPort::VhostUser(socket) => Guest::connect(socket),
            SwitchPort::Interface(name) | SwitchPort::Netmap(name) | SwitchPort::VirtualFunction(name) => {
                Guest::open(&surroundings.guests, name)
            }
        };
        let guests = ports.iter().map(connect).collect::<Result<Vec<Guest>>>()?;
        let deadline = Instant::now() + SOON;
        while !running.is_up()? {
            running.check()?;
            assert!(Instant::now() < deadline, "the switch is not up");
            std::thread::sleep(PAUSE);
        }
        Ok(Rig { guests, running, surroundings, round: 0 })
    }

    /// Starts the switch with an interface that is missing, and returns its error.
    pub fn with_missing_interface(switch: &dyn SwitchKind) -> Result<String> {
        let (surroundings, _) = Surroundings::new(&[])?;
        let ports = ["nosuch0", "nosuch1"].map(|name| SwitchPort::Interface(name.to_owned()));
        let error = surroundings.start(switch, &ports).err().expect("its interfaces are missing").to_string();
        surroundings.check_clean()?;
        Ok(error)
    }

    /// Waits until frames from every guest reach its partner.
    pub fn wait_until_frames_pass(&mut self) -> Result<()> {
        let mut reached = vec![false; self.guests.len()];
        self.try_rounds("frames from every guest reach its partner", |rig| {
            for number in rig.numbers() {
                rig.send(number, Some(number ^ 1))?;
            }
            std::thread::sleep(PAUSE);
            for (number, reached) in reached.iter_mut().enumerate() {
                let own = rig.guests[number].receive()?;
                *reached |= own.iter().any(|message| usize::from(message.from) == number ^ 1);
            }
            Ok(reached.iter().all(|&reached| reached))
        })
    }

    /// Waits until a frame from each guest to its partner reaches no third guest. A frame to all follows it on the same way, so
    /// that it is certain when the first one does not come any more.
    pub fn wait_until_it_has_learned(&mut self) -> Result<()> {
        let mut spared = vec![false; self.guests.len()];
        self.try_rounds("frames to a learned address reach no third guest", |rig| {
            for number in rig.numbers() {
                let round = rig.round;
                rig.send(number, Some(number ^ 1))?;
                rig.send(number, None)?;
                let of_round = |message: &Message| message.from == number && message.round == round;
                let mut others = true;
                for other in rig.numbers().filter(|&other| other != number) {
                    let Some(seen) = rig.receive_to_end(other, of_round)? else { return Ok(false) };
                    let is_for_one = seen.iter().any(|message| message.to.is_some());
                    if other == number ^ 1 {
                        // Frames keep their order, and none is lost.
                        others &= is_for_one;
                    } else {
                        others &= !is_for_one;
                    }
                }
                spared[usize::from(number)] |= others;
            }
            Ok(spared.iter().all(|&spared| spared))
        })
    }

    /// Returns the messages of `of_round` that a guest gets up to the one for all, or none if that is lost.
    fn receive_to_end(&mut self, guest: u8, of_round: impl Fn(&Message) -> bool) -> Result<Option<Vec<Message>>> {
        let deadline = Instant::now() + SOON;
        let mut seen = Vec::new();
        while Instant::now() < deadline {
            let new = self.guests[usize::from(guest)].receive()?;
            seen.extend(new.into_iter().filter(&of_round));
            if seen.iter().any(|message| message.to.is_none()) {
                return Ok(Some(seen));
            }
            self.running.check()?;
        }
        Ok(None)
    }

    /// Calls `attempt` in one round after the other, until it succeeds.
    fn try_rounds(&mut self, what: &str, mut attempt: impl FnMut(&mut Rig) -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + SOON;
        loop {
            self.round += 1;
            if attempt(self)? {
                return Ok(());
            }
            self.running.check()?;
            assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        }
    }

    fn send(&mut self, from: u8, to: Option<u8>) -> Result<()> {
        let message = Message { to, from, round: self.round };
        self.guests[usize::from(from)].send(message)
    }

    fn numbers(&self) -> std::ops::Range<u8> {
        0..self.guests.len() as u8
    }

    /// Ends the switch while its guests are there, and checks that nothing is left.
    pub fn remove(self) -> Result<()> {
        let Rig { guests, running, surroundings, .. } = self;
        let processes = running.processes();
        drop(running);
        for process in processes {
            assert!(!Path::new(&format!("/proc/{process}")).exists(), "process {process} is left");
        }
        surroundings.check_clean()?;
        drop(guests);
        Ok(())
    }
}
