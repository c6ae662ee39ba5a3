//! The network side: TCP over an Ethernet interface.

use super::device::Link;
use super::options::{Limits, Options};
use super::sequence::{Numbered, Sequences};
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::Socket as Any;
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{
    ETHERNET_HEADER_LEN, EthernetAddress, EthernetFrame, EthernetProtocol, IpAddress, IpCidr, IpEndpoint, IpProtocol,
    Ipv4Cidr, Ipv4Packet, TcpPacket,
};
use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Time in which a peer must answer a request for a connection.
const ANSWER: Duration = Duration::from_secs(30);
/// Time in which a peer must acknowledge. Probes of a closed window come up to a minute apart, which is no silence.
const ALIVE: Duration = Duration::from_secs(120);
/// Time after which an idle peer is probed.
const ASK: Duration = Duration::from_secs(30);
/// Longest time that an acknowledgement waits for data to go with it. Slow start goes by acknowledgements, and links are short.
const ACK: Duration = Duration::from_millis(1);

/// A request for a connection, from the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) from: IpEndpoint,
    pub(super) port: u16,
}

impl Request {
    /// Reports whether a socket has the connection that is requested.
    pub(super) fn is_of(self, socket: &Socket<'_>) -> bool {
        let port = socket.local_endpoint().map(|local| local.port);
        socket.remote_endpoint() == Some(self.from) && port == Some(self.port)
    }
}

/// An interface, and the sockets of all connections.
pub(super) struct Stack {
    interface: Interface,
    pub(super) sockets: SocketSet<'static>,
    address: Ipv4Addr,
    mac: EthernetAddress,
    buffer: usize,
    sequences: Sequences,
}

impl Stack {
    pub(super) fn new(options: &Options, seed: u64) -> Stack {
        let mac = EthernetAddress(options.mac.0);
        let mut config = Config::new(mac.into());
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut Shape(options.mtu.into()), Instant::ZERO);
        let own = Ipv4Cidr::new(options.address.address, options.address.len);
        interface.update_ip_addrs(|all| all.push(IpCidr::Ipv4(own)).expect("there is room for one"));
        if let Some(gateway) = options.gateway {
            interface.routes_mut().add_default_ipv4_route(gateway).expect("there is room for one");
        }
        let Limits { buffer, .. } = options.limits;
        Stack {
            interface,
            sockets: SocketSet::new(Vec::new()),
            address: options.address.address,
            mac,
            buffer,
            sequences: Sequences::default(),
        }
    }

    /// Returns the request for a connection that the next frame is, if it is one.
    pub(super) fn request(&self, link: &impl Link) -> Option<Request> {
        let frame = EthernetFrame::new_checked(link.first()?).ok()?;
        if frame.ethertype() != EthernetProtocol::Ipv4 || frame.dst_addr() != self.mac {
            return None;
        }
        let packet = Ipv4Packet::new_checked(frame.payload()).ok()?;
        if packet.next_header() != IpProtocol::Tcp || packet.dst_addr() != self.address {
            return None;
        }
        let segment = TcpPacket::new_checked(packet.payload()).ok()?;
        let is_request = segment.syn() && !segment.ack() && !segment.rst();
        let from = IpEndpoint::new(packet.src_addr().into(), segment.src_port());
        is_request.then(|| Request { from, port: segment.dst_port() })
    }

    /// Processes the next frame; reports whether there was one.
    pub(super) fn receive(&mut self, link: &mut impl Link, now: Instant) -> bool {
        use smoltcp::iface::PollIngressSingleResult::None;
        let mut device = Numbered { device: link, sequences: &mut self.sequences };
        self.interface.poll_ingress_single(now, &mut device, &mut self.sockets) != None
    }

    /// Sends due segments.
    pub(super) fn send(&mut self, link: &mut impl Link, now: Instant) {
        let mut device = Numbered { device: link, sequences: &mut self.sequences };
        while self.interface.poll_egress(now, &mut device, &mut self.sockets) != PollResult::None {}
    }

    /// Returns the time when something is due, if anything is.
    pub(super) fn due(&mut self, now: Instant) -> Option<Instant> {
        self.interface.poll_at(now, &self.sockets)
    }

    /// Adds a socket for a connection that the next frame requests.
    pub(super) fn listen(&mut self, port: u16) -> SocketHandle {
        let mut socket = self.socket();
        socket.listen((self.address, port)).expect("the socket is new, and the port not 0");
        self.sockets.add(socket)
    }

    /// Adds a socket that connects to a service. `None` if there is no way to its address.
    pub(super) fn connect(&mut self, to: SocketAddrV4, from: u16) -> Option<SocketHandle> {
        let mut socket = self.socket();
        socket.connect(self.interface.context(), to, from).ok()?;
        Some(self.sockets.add(socket))
    }

    fn socket(&mut self) -> Socket<'static> {
        self.forget_sequences();
        let buffer = || SocketBuffer::new(vec![0; self.buffer]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_congestion_control(CongestionControl::Reno);
        // The two ends have chosen how to cut their stream.
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(Some(ACK));
        socket.set_timeout(Some(ANSWER));
        socket
    }

    /// Forgets the numbers of connections that are over, once these are many.
    fn forget_sequences(&mut self) {
        let live = || self.sockets.iter().map(|(_, Any::Tcp(socket))| socket);
        if self.sequences.len() < 2 * live().count() + 64 {
            return;
        }
        let ends = |socket: &Socket<'_>| Some((socket.local_endpoint()?.port, socket.remote_endpoint()?));
        let live: HashSet<_> = live().filter_map(ends).collect();
        self.sequences.retain(|ends| live.contains(ends));
    }

    /// Reports whether a socket has the connection that is requested.
    pub(super) fn has(&self, request: Request) -> bool {
        self.sockets.iter().any(|(_, Any::Tcp(socket))| request.is_of(socket))
    }

    /// Returns the address of a connection's peer, as long as the stack has the connection.
    pub(super) fn peer(&self, handle: SocketHandle) -> Option<IpAddress> {
        self.sockets.get::<Socket<'_>>(handle).remote_endpoint().map(|remote| remote.addr)
    }

    pub(super) fn get(&mut self, handle: SocketHandle) -> &mut Socket<'static> {
        self.sockets.get_mut(handle)
    }

    pub(super) fn remove(&mut self, handle: SocketHandle) {
        self.sockets.remove(handle);
    }
}

/// Sets the times of a connection that is established.
pub(super) fn established(socket: &mut Socket<'_>) {
    socket.set_timeout(Some(ALIVE));
    socket.set_keep_alive(Some(ASK));
}

/// The capabilities of the links to come: the interface asks for them when it is made.
struct Shape(usize);

/// No frame.
enum Never {}

impl RxToken for Never {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, _: F) -> R {
        match self {}
    }
}

impl TxToken for Never {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, _: usize, _: F) -> R {
        match self {}
    }
}

impl Device for Shape {
    type RxToken<'a> = Never;
    type TxToken<'a> = Never;

    fn receive(&mut self, _: Instant) -> Option<(Never, Never)> {
        None
    }

    fn transmit(&mut self, _: Instant) -> Option<Never> {
        None
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.0 + ETHERNET_HEADER_LEN;
        capabilities
    }
}
