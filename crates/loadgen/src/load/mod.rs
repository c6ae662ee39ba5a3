//! The load: a single thread that is source and sink of two or more virtio ports, with a bounded number of frames in flight, so
//! that it adapts to the switch and loses nothing.

mod fixed_ring;
mod frame;
mod options;
mod port;
mod pump;
mod report;
mod sequence;

pub use fixed_ring::{FixedRing, Misused};
pub use frame::{Header, MAX_SIZE, MIN_SIZE, Nothing, Payload, Shape, Touch};
pub use options::{LoadOptions, TouchLevel, power_of_two};
pub use port::{Port, Side};
pub use pump::{PumpError, Tally};
pub use report::{Accounts, Conditions, Report};
pub use sequence::{Counts, Sequence};

use crate::cpu::{self, PinError};
use crate::cycles;
use nf::memory::Buffers;
use pump::Pump;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use vhost_user::Mode;
use vhost_user::frontend::{Exchange, FrontendError, FrontendOptions, Link, Membership, QueueEnd};
use virtqueue::exchange::HEADROOM;
use virtqueue::memory::{Arena, MemoryError};
use virtqueue::{NET_HEADER, Negotiated, QueueConfig, features};

/// Time limit for a switch to accept a port.
const CONNECT: Duration = Duration::from_secs(15);
/// Time limit after that until every port has received a frame.
const FIRST: Duration = Duration::from_secs(20);
/// Usual size of a receive buffer, for a guest that does not know the frame sizes; more only for longer frames.
const USUAL_BUFFER: usize = 2048;

/// Error that keeps a load from running.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum LoadError {
    #[error("{count} ports do not pair up: give an even number of sockets, or one")]
    Odd { count: usize },
    #[error("no memory for the port at {}: {source}", socket.display())]
    Memory { socket: PathBuf, source: MemoryError },
    #[error("the port at {}: {source}", socket.display())]
    Link { socket: PathBuf, source: FrontendError },
    #[error("can't draw the number by which the group knows the load: {0}")]
    Membership(std::io::Error),
    #[error(
        "the port at {}: the group's buffers hold frames of {size} bytes: set `buffer-size` of the [[exchange]]",
        socket.display()
    )]
    Buffers { socket: PathBuf, size: usize },
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error(transparent)]
    Pump(#[from] PumpError),
    #[error("no frame came through, one way or both: is the switch forwarding between its ports?")]
    Nothing,
}

/// Connects all ports, runs, and reports.
pub fn run(load: &LoadOptions) -> Result<Report, LoadError> {
    let count = load.sockets.len();
    if count > 1 && count % 2 == 1 {
        return Err(LoadError::Odd { count });
    }
    let mut links = Vec::new();
    let mut ports = Vec::new();
    let mut memory = "normal pages";
    for indices in load.topology().functions(count) {
        let function = open(load, &indices)?;
        if function.huge {
            memory = "huge pages";
        }
        links.extend(function.links);
        ports.extend(function.ports);
    }
    let conditions = Conditions {
        size: load.size,
        touch: load.touch,
        features: describe(links[0].negotiated()),
        memory: memory.to_owned(),
    };
    // Pin only now: threads of the links must not share the processor with the loop.
    if let Some(cpu) = load.cpu {
        cpu::pin(cpu)?;
    }
    let alive = || links.iter().all(Link::is_connected);
    match load.touch {
        TouchLevel::None => measure::<Nothing>(load, ports, conditions, &alive),
        TouchLevel::Header => measure::<Header>(load, ports, conditions, &alive),
        TouchLevel::Payload => measure::<Payload>(load, ports, conditions, &alive),
    }
}

/// Line printed when the warm-up begins.
pub const RUNNING: &str = "running";

fn measure<T: Touch>(
    load: &LoadOptions,
    ports: Vec<Port>,
    conditions: Conditions,
    alive: &dyn Fn() -> bool,
) -> Result<Report, LoadError> {
    let hz = cycles::frequency();
    let mut pump = Pump::new(ports, load.topology(), load.window, (load.patience * hz) as u64, alive);
    let began = Instant::now();
    let in_time = || began.elapsed() < FIRST;
    while !pump.begin::<T>((0.05 * hz) as u64)? {
        if !in_time() {
            return Err(LoadError::Nothing);
        }
    }
    eprintln!("{RUNNING}");
    pump.run::<T>((load.warmup * hz) as u64)?;
    if !pump.settle::<T>((0.001 * hz) as u64, in_time)? {
        return Err(LoadError::Nothing);
    }
    let before = Accounts { counts: pump.counts(), tally: pump.tally() };
    let mark = cycles::Mark::now();
    let began = Instant::now();
    loop {
        pump.run::<T>((load.seconds * hz) as u64)?;
        let after = Accounts { counts: pump.counts(), tally: pump.tally() };
        let report = Report::between(conditions.clone(), mark.elapsed(), &before, &after);
        // On a busy machine the switch may not have had the processor for longer than a short measurement.
        match report.packets {
            0 if began.elapsed() < FIRST => {}
            0 => return Err(LoadError::Nothing),
            _ => return Ok(report),
        }
    }
}

/// A function of the load: some ports with common memory.
struct Function {
    links: Vec<Link>,
    ports: Vec<Port>,
    huge: bool,
}

/// Connects the ports of a function.
fn open(load: &LoadOptions, indices: &[usize]) -> Result<Function, LoadError> {
    let sockets = &load.sockets;
    let no_memory = |source| LoadError::Memory { socket: sockets[indices[0]].clone(), source };
    let frame = USUAL_BUFFER.max(NET_HEADER as usize + usize::from(load.size));
    let count = load.queue_size * 2 * indices.len() as u16;
    let areas = QueueConfig::area_sizes(Negotiated(load.features()).format(), load.queue_size);
    let rings = 2 * indices.len() as u64 * (areas.sum() + 3 * 4096);
    let own = if load.exchange { 0 } else { Buffers::footprint(count, frame) };
    let mut arena = Arena::new(own + rings, true).map_err(no_memory)?;
    let membership = load.exchange.then(|| Membership::new(count)).transpose().map_err(LoadError::Membership)?;
    let membership = membership.map(Arc::new);
    let mut connected = Vec::new();
    for &index in indices {
        let socket = &sockets[index];
        let options = FrontendOptions {
            socket: socket.clone(),
            mode: if load.server { Mode::Server } else { Mode::Client },
            queue_pairs: 1,
            queue_sizes: load.queue_size.into(),
            features: load.features(),
            exchange: membership.clone().map(Exchange::Group),
        };
        let (link, mut pairs) = Link::establish(&options, &mut arena, Some(CONNECT), &AtomicBool::new(false))
            .map_err(|source| LoadError::Link { socket: socket.clone(), source })?;
        connected.push((index, link, pairs.remove(0)));
    }
    let (buffers, mut numbers) = match membership.and_then(|membership| membership.member()) {
        Some(member) => (Buffers::of_group(&member).behind(HEADROOM), member.grant.buffers.clone()),
        None => {
            let buffers = Buffers::allocate(&mut arena, count, frame).expect("the arena was made to fit");
            (buffers, (0..count).collect())
        }
    };
    let buffers = Arc::new(buffers);
    let sent = NET_HEADER as usize + usize::from(load.size);
    if buffers.size() < sent {
        let (socket, size) = (sockets[indices[0]].clone(), buffers.size() - NET_HEADER as usize);
        return Err(LoadError::Buffers { socket, size });
    }
    let mut side = |end: QueueEnd, len: usize, writable| {
        let slots = numbers.split_off(numbers.len() - usize::from(load.queue_size)).into();
        Side { ring: FixedRing::new(&arena, &end.config, (&buffers, slots), len as u32, writable), kick: end.kick }
    };
    let mut function = Function { links: Vec::new(), ports: Vec::new(), huge: arena.is_huge() };
    for (index, link, pair) in connected {
        let receive = side(pair.receive, frame.min(buffers.size()), true);
        let transmit = side(pair.transmit, sent, false);
        // A function of a chain has one side towards the first port, and one towards the last.
        let end = |from: usize| if from.is_multiple_of(2) { 0 } else { sockets.len() - 1 };
        let (own, other) = match load.topology().peer(index, sockets.len()) {
            Some(other) => (index, other),
            None => (end(index), end(index + 1)),
        };
        let shapes = (Shape::new(own, other, load.size), Shape::new(other, own, load.size));
        function.ports.push(Port::new(receive, transmit, shapes.0, shapes.1));
        function.links.push(link);
    }
    Ok(function)
}

/// Describes the negotiated features.
pub fn describe(negotiated: Negotiated) -> String {
    let mut words = negotiated.format().to_string();
    for (mask, word) in [
        (features::MRG_RXBUF, "mergeable"),
        (features::IN_ORDER, "in order"),
        (features::EVENT_IDX, "event index"),
        (features::EXCHANGE, "exchange"),
    ] {
        if negotiated.has(mask) {
            words.push_str(", ");
            words.push_str(word);
        }
    }
    words
}
