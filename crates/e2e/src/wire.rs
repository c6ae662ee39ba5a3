//! The other side of a physical port, the "wire": a second Millrace, which patches it to its port `far`.

use crate::virtio::{Guest, Options};
use lab::Result;
use lab::millrace::config::{
    Part, RawDpdk, RawPort, VirtioUser, af_packet, af_xdp, dpdk_devices, dpdk_port, patch, patched, port, sleeper,
    socket, vhost_user,
};
use lab::netns::Namespace;

use crate::cable::two_namespaces_with;
use crate::mapped::one_wire;
use crate::{Home, Millrace, poller};

/// The other side of a virtio-user port or of a [`Cable`]. It writes straight into the buffers that it gets, as a NIC does.
pub struct Wire {
    // Dropped before its directory, in which its control socket lies: after a failure it shows its counters.
    millrace: Option<Millrace>,
    /// Its directory.
    pub home: Home,
}

impl Wire {
    /// Starts the wire of a virtio-user port: between `wan.sock`, which the switch connects to, and the port `far`.
    pub fn start() -> Wire {
        let home = Home::new();
        let millrace = home.start((patched("wan", "far"), sleeper()));
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
        self.millrace = Some(self.home.start((patched("wan", "far"), sleeper())));
    }

    /// Returns the configuration of a virtio-user port connected to it.
    pub fn port(&self, packed: bool) -> RawPort {
        let socket = socket(&self.home.socket("wan"));
        port("wan", VirtioUser { socket, packed: packed.into(), ..VirtioUser::default() })
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

    /// Connects a guest at a far port, and waits until frames pass both ways.
    pub fn guest(&self, port: &str) -> Result<Guest> {
        let millrace = self.millrace.as_ref().expect("it lives");
        // The port is up, too, as long as it does not know that the guest of before has left.
        millrace.wait_gone(port);
        let guest = Options::new(self.home.socket(port)).connect()?;
        millrace.wait_up(&[port]);
        // The other end may be up before this one, which drops frames until then.
        for port in millrace.stats().ports.iter().filter(|port| ["wan", "cable"].contains(&port.name.as_str())) {
            millrace.wait_up(&[&port.name]);
        }
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

    /// Lays a cable with this number of queues each way.
    pub fn with_queues(queues: u32) -> Result<Cable> {
        let (here, there) = two_namespaces_with(queues)?;
        Ok(Cable { here, there })
    }

    /// Starts the wire: it patches its end of the cable to its port `far`.
    pub fn wire(&self) -> Wire {
        let home = Home::new();
        let ports = (af_packet("cable", "up1"), vhost_user("far"));
        let millrace = home.start_inside(&self.there, (ports, patch("cable", "far"), sleeper()));
        Wire::of(home, millrace)
    }

    /// Starts a switch with a port `wan` at the cable, and `fw` for a guest.
    pub fn switch(&self, home: &Home, wan: RawPort, rest: impl Part) -> Millrace {
        let millrace = home.start_inside(&self.here, (wan, vhost_user("fw"), rest));
        millrace.wait_up(&["wan"]);
        millrace
    }
}

/// Returns the configuration of a port at a [`Cable`].
pub fn wan() -> RawPort {
    af_xdp("wan", "up0")
}

/// The device of a DPDK port at a [`Cable`].
pub const DPDK: &str = "net_af_packet0,iface=up0";

/// Kinds of physical ports that can be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A virtio-user port.
    VirtioUser,
    /// An AF_XDP port.
    AfXdp,
    /// A DPDK port, with a driver that copies between the kernel and the buffers that it gets.
    Dpdk,
}

/// All kinds.
pub const KINDS: [Kind; 3] = [Kind::VirtioUser, Kind::AfXdp, Kind::Dpdk];

/// The way from a switch to a wire: a port `wan` of one of the kinds.
pub struct Line {
    /// The other side.
    pub wire: Wire,
    /// The cable between the two, if there is one.
    pub cable: Option<Cable>,
    /// The configuration of the port.
    pub wan: RawPort,
    dpdk: Option<RawDpdk>,
}

impl Line {
    /// Lays it. The rings of a virtio-user port may be packed.
    pub fn new(kind: Kind, packed: bool) -> Result<Line> {
        if kind == Kind::VirtioUser {
            let wire = Wire::start();
            let wan = wire.port(packed);
            return Ok(Line { wire, cable: None, wan, dpdk: None });
        }
        let cable = Cable::new()?;
        let (wan, dpdk) = match kind {
            Kind::Dpdk => (dpdk_port("wan", "net_af_packet0"), Some(dpdk_devices(&[DPDK]))),
            _ => (wan(), None),
        };
        Ok(Line { wire: cable.wire(), cable: Some(cable), wan, dpdk })
    }

    /// Starts a switch with the port `wan`, `fw` for a guest, and the rest.
    pub fn switch(&self, home: &Home, rest: impl Part) -> Millrace {
        let config = (&self.wan, &self.dpdk, vhost_user("fw"), rest);
        let millrace = match &self.cable {
            Some(cable) => home.start_inside(&cable.here, config),
            None => home.start(config),
        };
        millrace.wait_up(&["wan"]);
        millrace
    }
}

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
        let (home, line) = (Home::new(), Line::new(kind, false)?);
        if let Some(cable) = &line.cable {
            // Frames may arrive that are longer than the switch's interface accepts.
            cable.there.run("ip", &["link", "set", "up1", "mtu", "3000"])?;
        }
        let millrace = line.switch(&home, (one_wire(), poller()));
        Ok(Scene { millrace, home, wire: line.wire, cable: line.cable })
    }
}
