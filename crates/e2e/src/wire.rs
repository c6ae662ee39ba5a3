//! The other side of a physical port, the "wire": a second Millrace, which patches it to its port `far`.

use crate::virtio::{Guest, Options};
use lab::Result;
use lab::netns::Namespace;

use crate::cable::two_namespaces_with;
use crate::mapped::PASS_THROUGH;
use crate::{Home, Millrace, SLEEPER, patch, poller, port};

/// The other side of a virtio-user port or of a [`Cable`]. It writes straight into the buffers that it gets, as a NIC does.
pub struct Wire {
    /// Its directory.
    pub home: Home,
    millrace: Option<Millrace>,
}

impl Wire {
    /// Creates the wire of a virtio-user port: between `wan.sock`, which the switch connects to, and the port `far`.
    pub fn new() -> Wire {
        let home = Home::new();
        let millrace = home.start(&(patch("wan", "far") + SLEEPER));
        Wire::of(home, millrace)
    }

    /// Wraps a wire that is already running.
    pub fn of(home: Home, millrace: Millrace) -> Wire {
        Wire { home, millrace: Some(millrace) }
    }

    /// Kills it.
    pub fn kill(&mut self) -> Result<()> {
        self.millrace.take().expect("it lives").daemon.kill()?;
        Ok(())
    }

    /// Starts the killed wire again.
    pub fn revive(&mut self) {
        self.millrace = Some(self.home.start(&(patch("wan", "far") + SLEEPER)));
    }

    /// Returns the configuration of a virtio-user port connected to it.
    pub fn port(&self, packed: bool) -> String {
        let socket = self.home.socket("wan").display().to_string();
        format!("[[port]]\nname = \"wan\"\ndriver = \"virtio-user\"\nsocket = \"{socket}\"\npacked = {packed}\n")
    }

    /// Returns how many times a switch has connected to it.
    pub fn sessions(&self) -> usize {
        let log = self.millrace.as_ref().expect("it lives").daemon.log().since(0);
        log.iter().filter(|line| line.contains("frontend connected") && line.contains("wan.sock")).count()
    }

    /// Returns options for a guest at its port `far`.
    pub fn far(&self) -> Options {
        Options::new(self.home.socket("far"))
    }

    /// Connects a guest at a far port, and waits until frames reach it.
    pub fn guest(&self, port: &str) -> Result<Guest> {
        let guest = Options::new(self.home.socket(port)).connect()?;
        self.millrace.as_ref().expect("it lives").wait_up(&[port]);
        Ok(guest)
    }
}

/// A cable between two namespaces: `up0` at the switch, `up1` at the wire.
pub struct Cable {
    /// The switch's end.
    pub here: Namespace,
    /// The wire's end.
    pub there: Namespace,
}

impl Cable {
    /// Lays a cable with one queue each way.
    pub fn new() -> Result<Cable> {
        Cable::with_queues(1)
    }

    /// Lays a cable with so many queues each way.
    pub fn with_queues(queues: u32) -> Result<Cable> {
        let (here, there) = two_namespaces_with(queues)?;
        Ok(Cable { here, there })
    }

    /// Starts the wire: it patches its end of the cable to its port `far`.
    pub fn wire(&self) -> Wire {
        let home = Home::new();
        let cable = "[[port]]\nname = \"cable\"\ndriver = \"af_packet\"\ninterface = \"up1\"\n";
        let patch = "[[patch]]\nports = [\"cable\", \"far\"]\n";
        let millrace = home.start_inside(&self.there, &[cable, &port("far"), patch, SLEEPER].concat());
        Wire::of(home, millrace)
    }

    /// Starts a switch with a port `wan` at the cable, and `fw` for a guest.
    pub fn switch(&self, home: &Home, options: &str, rest: &str) -> Millrace {
        let millrace = home.start_inside(&self.here, &[&af_xdp(options), &port("fw"), rest].concat());
        millrace.wait_up(&["wan"]);
        millrace
    }
}

/// Returns the configuration of a port at a [`Cable`].
pub fn af_xdp(options: &str) -> String {
    format!("[[port]]\nname = \"wan\"\ndriver = \"af_xdp\"\ninterface = \"up0\"\n{options}\n")
}

/// Kinds of physical ports that can be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A virtio-user port.
    VirtioUser,
    /// An AF_XDP port.
    AfXdp,
}

/// All kinds.
pub const KINDS: [Kind; 2] = [Kind::VirtioUser, Kind::AfXdp];

/// A polling switch with a port of either kind that is mapped to `fw`, and the wire of that port.
pub struct Scene {
    /// The switch.
    pub millrace: Millrace,
    /// Its directory.
    pub home: Home,
    /// The other side of its port `wan`.
    pub wire: Wire,
    /// The cable between the two, if there is one.
    pub cable: Option<Cable>,
}

impl Scene {
    /// Starts both.
    pub fn new(kind: Kind) -> Result<Scene> {
        let home = Home::new();
        if kind == Kind::VirtioUser {
            let wire = Wire::new();
            let config = [&wire.port(false), &port("fw"), PASS_THROUGH, &poller()].concat();
            let millrace = home.start(&config);
            millrace.wait_up(&["wan"]);
            return Ok(Scene { millrace, home, wire, cable: None });
        }
        let cable = Cable::new()?;
        // Frames may arrive that are longer than the switch's interface accepts.
        cable.there.run("ip", &["link", "set", "up1", "mtu", "3000"])?;
        let wire = cable.wire();
        let millrace = cable.switch(&home, "", &[PASS_THROUGH, &poller()].concat());
        Ok(Scene { millrace, home, wire, cable: Some(cable) })
    }
}
