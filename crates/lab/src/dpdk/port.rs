//! Ports of DPDK programs, and the devices that they are made of.

use std::path::{Path, PathBuf};

/// A virtio_user port: the driver of a vhost-user device.
#[derive(Debug, Clone)]
pub struct Port {
    pub(super) socket: PathBuf,
    mac: Option<String>,
    server: bool,
    packed: bool,
    mergeable: bool,
    in_order: bool,
    pub(super) queue_size: u16,
    aggregation: Option<Aggregation>,
}

/// A device of the driver `net_paflow` on a port.
#[derive(Debug, Clone)]
struct Aggregation {
    /// Name of the configuration, in the directory of the socket.
    config: String,
    /// Name of the port there.
    port: String,
}

impl Port {
    /// Creates a port that connects to the backend's socket, with split rings of 256 and mergeable buffers.
    pub fn new(socket: impl AsRef<Path>) -> Self {
        Self {
            socket: socket.as_ref().to_owned(),
            mac: None,
            server: false,
            packed: false,
            mergeable: true,
            in_order: false,
            queue_size: 256,
            aggregation: None,
        }
    }

    /// Sets its MAC address; the default is random.
    pub fn mac(mut self, mac: impl Into<String>) -> Self {
        self.mac = Some(mac.into());
        self
    }

    /// Makes the port create the socket and wait for the backend.
    pub fn server(mut self) -> Self {
        self.server = true;
        self
    }

    /// Requests packed rings.
    pub fn packed(mut self) -> Self {
        self.packed = true;
        self
    }

    /// Requests mergeable receive buffers, or not.
    pub fn mergeable(mut self, mergeable: bool) -> Self {
        self.mergeable = mergeable;
        self
    }

    /// Requests in-order use of descriptors.
    pub fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// Sets the size of its rings.
    pub fn queue_size(mut self, size: u16) -> Self {
        self.queue_size = size;
        self
    }

    /// Puts a device of the driver `net_paflow` on the port ([`super::Builder::plugin`]), which splits and joins by a file in the
    /// directory of the socket, as the port of this name there.
    pub fn aggregating(mut self, config: impl Into<String>, port: impl Into<String>) -> Self {
        self.aggregation = Some(Aggregation { config: config.into(), port: port.into() });
        self
    }

    /// Returns DPDK's arguments for the devices: its own, then the one that stands on it.
    fn devices(&self, number: usize, queues: u16) -> Vec<String> {
        let mut devices = vec![self.device(number, queues)];
        devices.extend(self.aggregation.as_ref().map(|Aggregation { config, port }| {
            let config = self.socket.with_file_name(config);
            format!("net_paflow{number},dev=net_virtio_user{number},config={},port={port}", config.display())
        }));
        devices
    }

    /// Returns DPDK's arguments for its own device.
    pub(crate) fn device(&self, number: usize, queues: u16) -> String {
        let flag = u8::from;
        let mut device = format!(
            "net_virtio_user{number},path={},queues={queues},queue_size={},packed_vq={},mrg_rxbuf={},in_order={}",
            self.socket.display(),
            self.queue_size,
            flag(self.packed),
            flag(self.mergeable),
            flag(self.in_order)
        );
        if self.server {
            device.push_str(",server=1");
        }
        if let Some(mac) = &self.mac {
            device.push_str(&format!(",mac={mac}"));
        }
        device
    }
}

/// A vhost-user port of a switch.
#[derive(Debug, Clone)]
pub struct VhostPort {
    pub(crate) socket: PathBuf,
    pub(crate) client: bool,
}

impl VhostPort {
    /// Creates a port that creates the socket.
    pub fn new(socket: impl AsRef<Path>) -> Self {
        Self { socket: socket.as_ref().to_owned(), client: false }
    }

    /// Makes the port connect to a socket created by the guest, retrying until it succeeds.
    pub fn client(mut self) -> Self {
        self.client = true;
        self
    }

    /// Returns DPDK's arguments for the device.
    pub(crate) fn device(&self, number: usize, queues: u16) -> String {
        let client = u8::from(self.client);
        format!("net_vhost{number},iface={},queues={queues},client={client}", self.socket.display())
    }
}

/// A port of either kind.
#[derive(Debug, Clone)]
pub enum AnyPort {
    /// The driver of a device.
    Driver(Port),
    /// The device.
    Switch(VhostPort),
    /// A device without a peer, by its driver and that one's arguments.
    Alone(&'static str, String),
}

impl From<Port> for AnyPort {
    fn from(port: Port) -> Self {
        AnyPort::Driver(port)
    }
}

impl From<VhostPort> for AnyPort {
    fn from(port: VhostPort) -> Self {
        AnyPort::Switch(port)
    }
}

impl AnyPort {
    pub(super) fn devices(&self, number: usize, queues: u16) -> Vec<String> {
        match self {
            AnyPort::Driver(port) => port.devices(number, queues),
            AnyPort::Switch(port) => vec![port.device(number, queues)],
            AnyPort::Alone(driver, arguments) => vec![format!("{driver}{number},{arguments}")],
        }
    }

    pub(crate) fn socket(&self) -> Option<&Path> {
        match self {
            AnyPort::Driver(port) => Some(&port.socket),
            AnyPort::Switch(port) => Some(&port.socket),
            AnyPort::Alone(..) => None,
        }
    }

    pub(super) fn set_socket(&mut self, socket: PathBuf) {
        match self {
            AnyPort::Driver(port) => port.socket = socket,
            AnyPort::Switch(port) => port.socket = socket,
            AnyPort::Alone(..) => {}
        }
    }

    /// Returns the size of its rings, if the port decides that.
    pub(super) fn queue_size(&self) -> Option<u16> {
        match self {
            AnyPort::Driver(port) => Some(port.queue_size),
            AnyPort::Switch(_) | AnyPort::Alone(..) => None,
        }
    }
}
