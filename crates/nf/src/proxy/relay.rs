//! All connections of a proxy, from the request to the end.

use super::connection::{Bytes, Connection, Standing};
use super::counters::{Counters, Refusal};
use super::device::Link;
use super::door::{Admission, Door, Established, Handshake};
use super::ephemeral::Ephemeral;
use super::error::ProxyError;
use super::local::{Listener, Stream};
use super::options::{Options, Reach};
use super::sockets::Sockets;
use super::stack::{self, Stack};
use super::watch::{EventFlags, Watch};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{Socket, State};
use smoltcp::time::Instant;
use smoltcp::wire::IpAddress;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddrV4;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Idle rounds between two polls of local sockets: a poll is a system call.
const LOOK: u32 = 8;
/// Longest sleep.
const SLEEP: Duration = Duration::from_millis(100);
/// Connections accepted at a listener in a round.
const ACCEPT: usize = 16;

/// A connection, and where it is from.
struct Entry {
    connection: Connection,
    /// Whether its second half is still being connected: the local one of a served connection, or the network's.
    connects: bool,
    /// The ephemeral port, of a connection into the network.
    port: Option<u16>,
}

/// All connections.
pub(super) struct Relay {
    sockets: Sockets,
    watch: Watch,
    door: Door,
    listeners: Vec<(Listener, SocketAddrV4)>,
    /// The oldest first.
    handshakes: Vec<Handshake>,
    /// By the number that they are watched under; listeners have the first numbers.
    connections: BTreeMap<u64, Entry>,
    counters: Counters,
    next: u64,
    /// When the stack has something to do.
    due: Option<Instant>,
    /// Rounds since the last poll of local sockets.
    unseen: u32,
    events: Vec<(u64, EventFlags)>,
}

impl Relay {
    pub(super) fn new(options: &Options) -> Result<Relay, ProxyError> {
        if options.serve.is_empty() && options.reach.is_empty() {
            return Err(ProxyError::Nothing);
        }
        // The lowest bit of the first byte marks addresses of groups (IEEE 802 §8.2).
        if options.mac.0[0] & 1 == 1 || options.mac.0 == [0; 6] {
            return Err(ProxyError::Mac(options.mac));
        }
        let mut services = HashMap::new();
        for service in &options.serve {
            if services.insert(service.port, service.to.clone()).is_some() {
                return Err(ProxyError::ServedTwice(service.port));
            }
        }
        let watch = Watch::new().map_err(ProxyError::Watch)?;
        let mut listeners = Vec::new();
        for Reach { at, to } in &options.reach {
            let listener = Listener::bind(at).map_err(|source| ProxyError::Listen { endpoint: at.clone(), source })?;
            watch.add_listener(&listener, listeners.len() as u64).map_err(ProxyError::Watch)?;
            listeners.push((listener, *to));
        }
        let seed = random().map_err(ProxyError::Random)?;
        Ok(Relay {
            sockets: Sockets::new(Stack::new(options, seed), Ephemeral::new(seed)),
            watch,
            door: Door { services, limits: options.limits },
            next: listeners.len() as u64,
            listeners,
            handshakes: Vec::new(),
            connections: BTreeMap::new(),
            counters: Counters::default(),
            due: None,
            unseen: 0,
            events: Vec::new(),
        })
    }

    pub(super) fn counters(&self) -> Counters {
        let mut counters = self.counters;
        counters.open = self.connections.len();
        counters
    }

    /// Returns a descriptor that is readable when a local socket has an event.
    pub(super) fn watched(&self) -> BorrowedFd<'_> {
        self.watch.fd()
    }

    /// Returns how long there is nothing to do without a frame or an event.
    pub(super) fn patience(&self, now: Instant) -> Duration {
        let due = self.due.map(|due| if due > now { (due - now).into() } else { Duration::ZERO });
        due.unwrap_or(SLEEP).min(SLEEP)
    }

    /// Processes received frames and events of local sockets. Returns the number of both; 0 if there was nothing to do.
    pub(super) fn round(&mut self, link: &mut impl Link, now: Instant) -> usize {
        let frames = self.receive(link, now);
        self.unseen += 1;
        let events = if frames > 0 || self.unseen >= LOOK { self.look() } else { 0 };
        let is_due = self.due.is_some_and(|due| due <= now);
        if frames + events == 0 && !is_due {
            return 0;
        }
        self.shake_hands();
        self.pump();
        self.sockets.stack.send(link, now);
        self.bury_silent();
        self.sockets.tidy(now);
        self.due = self.sockets.stack.due(now);
        // Soon there is more of it: look again before any rest.
        self.unseen = LOOK;
        frames + events
    }

    /// Hands all received frames to the stack.
    fn receive(&mut self, link: &mut impl Link, now: Instant) -> usize {
        let mut frames = 0;
        loop {
            let mut new = None;
            if let Some(request) = self.sockets.stack.request(link) {
                if self.handshakes.len() >= self.door.limits.backlog {
                    // Those that are over since the last look do not have to give way.
                    self.shake_hands();
                }
                let established = self.established(request.from.addr);
                match self.door.admit(request, &self.handshakes, established, &mut self.sockets) {
                    Admission::Known => {}
                    Admission::Take(handshake, victim) => new = Some((handshake, victim)),
                    Admission::Refuse(reason) => self.counters.refuse(reason),
                    Admission::Drop => {
                        self.counters.refuse(Refusal::BacklogFull);
                        link.discard();
                        frames += 1;
                        continue;
                    }
                }
            }
            let received = self.sockets.stack.receive(link, now);
            if let Some((handshake, victim)) = new {
                // A frame with a wrong checksum is no request.
                match self.sockets.stack.get(handshake.handle).state() {
                    State::Listen => self.sockets.stack.remove(handshake.handle),
                    _ => {
                        victim.into_iter().for_each(|victim| self.give_way(victim));
                        self.handshakes.push(handshake);
                    }
                }
            }
            if !received {
                return frames;
            }
            frames += 1;
        }
    }

    fn established(&self, peer: IpAddress) -> Established {
        let has_opened =
            |entry: &&Entry| entry.port.is_none() && self.sockets.stack.peer(entry.connection.handle) == Some(peer);
        let of_peer = self.connections.values().filter(has_opened).count();
        Established { all: self.connections.len(), of_peer }
    }

    /// Forgets a handshake. The peer gets a reset if it continues with it.
    fn give_way(&mut self, handshake: usize) {
        let Handshake { handle, .. } = self.handshakes.remove(handshake);
        self.sockets.stack.remove(handle);
        self.counters.refuse(Refusal::BacklogFull);
    }

    /// Connects those whose handshake is over to their services.
    fn shake_hands(&mut self) {
        let mut index = 0;
        while let Some(Handshake { handle, .. }) = self.handshakes.get(index) {
            let handle = *handle;
            let state = self.sockets.stack.get(handle).state();
            if state == State::SynReceived {
                index += 1;
                continue;
            }
            let Handshake { to, .. } = self.handshakes.remove(index);
            match state {
                State::Listen | State::Closed => {
                    let is_reset = state == State::Listen;
                    self.counters.refuse(if is_reset { Refusal::NetworkReset } else { Refusal::Silent });
                    self.sockets.stack.remove(handle);
                }
                _ => {
                    stack::established(self.sockets.stack.get(handle));
                    match Stream::connect(&to) {
                        Ok(local) => self.insert(Connection::new(handle, local, true), None),
                        Err(_) => self.refuse(handle, None, Refusal::Unreachable),
                    }
                }
            }
        }
    }

    /// Adds a connection whose second half is still being connected.
    fn insert(&mut self, connection: Connection, port: Option<u16>) {
        let number = self.next;
        self.next += 1;
        let handle = connection.handle;
        match self.watch.add(&connection.local, number) {
            Ok(()) => {
                self.connections.insert(number, Entry { connection, connects: true, port });
            }
            Err(_) => self.refuse(handle, port, Refusal::TooMany),
        }
    }

    /// Resets the network's side of a connection.
    fn refuse(&mut self, handle: SocketHandle, port: Option<u16>, reason: Refusal) {
        self.counters.refuse(reason);
        self.sockets.stack.get(handle).abort();
        self.sockets.reset(handle, port);
    }

    /// Looks which local sockets have events.
    fn look(&mut self) -> usize {
        self.unseen = 0;
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let count = self.watch.look(|number, event| events.push((number, event)));
        for &(number, event) in &events {
            if (number as usize) < self.listeners.len() {
                self.accept(number as usize);
            } else {
                self.note(number, event);
            }
        }
        self.events = events;
        count
    }

    /// Notes an event of a connection's local socket.
    fn note(&mut self, number: u64, event: EventFlags) {
        // The connection may have ended since.
        let Some(entry) = self.connections.get_mut(&number) else { return };
        let is_served = entry.port.is_none();
        if entry.connects && is_served {
            if !event.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP) {
                return;
            }
            if entry.connection.local.outcome().is_err() {
                let Entry { connection, port, .. } = self.connections.remove(&number).expect("it was just there");
                self.refuse(connection.handle, port, Refusal::Unreachable);
                return;
            }
            entry.connects = false;
            self.counters.served += 1;
        }
        entry.connection.note(event);
    }

    /// Accepts connections at a listener, and begins to connect each to its service.
    fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPT {
            let (listener, to) = &self.listeners[listener];
            let to = *to;
            let Ok(Some(local)) = listener.accept() else { return };
            let others = self.handshakes.len() + self.connections.len();
            let reason = if !self.sockets.make_room(others, self.door.limits.connections) {
                Refusal::TooMany
            } else if let Some(port) = self.sockets.ephemeral.take() {
                if let Some(handle) = self.sockets.stack.connect(to, port) {
                    self.insert(Connection::new(handle, local, false), Some(port));
                    continue;
                }
                self.sockets.ephemeral.give_back(port);
                Refusal::Unreachable
            } else {
                Refusal::NoPort
            };
            self.counters.refuse(reason);
            local.reset();
        }
    }

    /// Moves the bytes of all connections, and ends those that are over.
    fn pump(&mut self) {
        let mut moved = Bytes::default();
        let mut over = Vec::new();
        for (&number, entry) in &mut self.connections {
            let socket: &mut Socket<'_> = self.sockets.stack.sockets.get_mut(entry.connection.handle);
            if entry.connects && entry.port.is_some() && socket.may_send() {
                entry.connects = false;
                self.counters.reached += 1;
                stack::established(socket);
            }
            match entry.connection.pump(socket, &mut moved) {
                Standing::Open => {}
                standing => over.push((number, standing)),
            }
        }
        self.counters.from_network += moved.from_network;
        self.counters.to_network += moved.to_network;
        over.into_iter().for_each(|(number, standing)| self.end(number, standing));
    }

    /// Ends the connections of peers that the stack has given up.
    fn bury_silent(&mut self) {
        let is_silent = |(number, entry): (&u64, &Entry)| {
            let socket = self.sockets.stack.sockets.get::<Socket>(entry.connection.handle);
            entry.connection.was_given_up(socket).then_some(*number)
        };
        let silent: Vec<u64> = self.connections.iter().filter_map(is_silent).collect();
        for number in silent {
            self.end(number, Standing::NetworkSilent);
        }
    }

    fn end(&mut self, number: u64, standing: Standing) {
        let Some(Entry { connection, connects, port }) = self.connections.remove(&number) else { return };
        let handle = connection.handle;
        match standing {
            Standing::Open => unreachable!("it is over"),
            Standing::Ended => self.sockets.rest(handle, port),
            Standing::LocalGone => self.refuse(handle, port, Refusal::LocalReset),
            Standing::NetworkReset | Standing::NetworkSilent => {
                let is_reset = standing == Standing::NetworkReset;
                self.counters.refuse(match (is_reset, connects && port.is_some()) {
                    (false, _) => Refusal::Silent,
                    (true, true) => Refusal::Refused,
                    (true, false) => Refusal::NetworkReset,
                });
                connection.local.reset();
                self.sockets.reset(handle, port);
            }
        }
    }
}

fn random() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}
