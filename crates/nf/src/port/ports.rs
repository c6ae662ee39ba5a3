//! Ports that are opened together: they share memory, so that a packet moves between them without a copy.

use super::{Counters, Exchange, Options, Port, WaitError, wait};
use crate::aggregate::{Aggregation, SPLIT_BUFFERS};
use crate::memory::{Buffers, Pool};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vhost_user::frontend::{self, FrontendError, FrontendOptions, Link, Membership};
use virtqueue::memory::{Arena, Memory, MemoryError, Region};
use virtqueue::{Negotiated, QueueConfig};
use zcopy::{Device, Leftovers};

/// Minimum interval between two checks of the devices in [`Ports::check`].
const CHECK: Duration = Duration::from_millis(100);

/// Reason why ports can't be opened.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum OpenError {
    #[error("{buffers} buffers are needed, and {max} are possible: fewer or smaller queues, or fewer spare buffers")]
    TooManyBuffers { buffers: usize, max: u16 },
    #[error("buffers for frames of {size} bytes: 64 to 32768 are possible")]
    BufferSize { size: usize },
    #[error(
        "port {}: aggregates of {needed} bytes don't fit into buffers for frames of {size}: make buffers longer, or the \
         mtu of aggregation smaller", socket.display()
    )]
    AggregateSize { socket: PathBuf, needed: usize, size: usize },
    #[error(
        "the group's buffers hold frames of {group} bytes, and {wanted} are wanted: set `buffer-size` of the [[exchange]]"
    )]
    GroupBuffers { group: u32, wanted: usize },
    #[error(
        "buffers are exchanged by functions with one worker at the ports, and there are {0}: use --sharing static-role"
    )]
    GroupWorkers(u16),
    #[error(
        "buffers for frames of {size} bytes: pages hold {most}, and longer frames are received into several: ask for no more"
    )]
    PageSize { size: usize, most: usize },
    #[error("there are no pages to exchange: {0}")]
    Pages(#[from] zcopy::Error),
    #[error("there is no memory for the ports: {0}")]
    Memory(#[from] MemoryError),
    #[error("port {}: {source}", socket.display())]
    Link { socket: PathBuf, source: FrontendError },
    #[error("can't draw the number by which the group knows this function: {0}")]
    Membership(std::io::Error),
    #[error("can't handle signals: {0}")]
    Signals(std::io::Error),
    #[error("port {}: {reason}", socket.display())]
    Lost { socket: PathBuf, reason: String },
}

/// Ports with common memory. Dereferences to the ports of the first worker, in the order of [`Options::ports`].
///
/// Usually there is one worker. With more ([`Options::workers`]), each has a part of every port: queue pairs of its own, and a
/// pool, so that a packet never leaves its thread. [`crate::crew`] runs them.
///
/// When one device disconnects, all links are closed and established again over new memory: a device that is still
/// running may write to the old memory. Packets received before stay valid.
pub struct Ports {
    options: Options,
    /// By port.
    links: Vec<Link>,
    ports: Vec<Port>,
    /// The ports of each further worker.
    others: Vec<Vec<Port>>,
    huge: bool,
    /// Pools of a group's buffers: the present one, and earlier ones in which packets still lie.
    pools: Vec<Rc<Pool>>,
    checked: Instant,
}

/// The ports of each worker, and the links that they have in common.
pub(crate) struct WorkerPorts<'p> {
    pub(crate) links: &'p [Link],
    pub(crate) ports: Vec<&'p mut Vec<Port>>,
}

impl Ports {
    /// Connects to all devices; `stop` cancels the attempt.
    pub fn open(options: Options, stop: &AtomicBool) -> Result<Ports, OpenError> {
        let Established { links, ports, others, huge, pool } = establish(&options, &[], options.timeout, stop)?;
        let pools = pool.into_iter().collect();
        Ok(Ports { options, links, ports, others, huge, pools, checked: Instant::now() })
    }

    /// Returns the kind of pages of the memory, as text.
    pub fn memory(&self) -> &'static str {
        match (&self.options.exchange, self.huge) {
            (Exchange::Pages(_), _) => "pages that are exchanged",
            (_, true) => "huge pages",
            (_, false) => "normal pages",
        }
    }

    /// Returns the number of workers that have ports of their own.
    pub fn workers(&self) -> u16 {
        self.options.workers
    }

    /// Returns the counters of each port, of all workers together.
    pub fn counters(&self) -> Vec<Counters> {
        let mut sums: Vec<Counters> = self.ports.iter().map(Port::counters).collect();
        for ports in &self.others {
            sums.iter_mut().zip(ports).for_each(|(sum, port)| sum.add(&port.counters()));
        }
        sums
    }

    pub(crate) fn worker_ports(&mut self) -> WorkerPorts<'_> {
        WorkerPorts { links: &self.links, ports: std::iter::once(&mut self.ports).chain(&mut self.others).collect() }
    }

    /// Checks periodically whether the devices are still connected. If one is not, reopens all ports, without a time limit,
    /// or fails if [`Options::reconnect`] is not set. To be called regularly. Returns true if the ports were reopened.
    pub fn check(&mut self, stop: &AtomicBool) -> Result<bool, OpenError> {
        if self.checked.elapsed() < CHECK {
            return Ok(false);
        }
        self.checked = Instant::now();
        self.mend(stop)
    }

    /// Checks the devices, like [`Ports::check`], but now.
    pub(crate) fn mend(&mut self, stop: &AtomicBool) -> Result<bool, OpenError> {
        let Some((index, reason)) = (0..self.ports.len()).find_map(|port| Some((port, self.fault(port)?))) else {
            return Ok(false);
        };
        if !self.options.reconnect {
            return Err(OpenError::Lost { socket: self.ports[index].socket.clone(), reason });
        }
        let counted = |ports: &Vec<Port>| ports.iter().map(Port::counters).collect();
        let counters: Vec<Vec<Counters>> = std::iter::once(&self.ports).chain(&self.others).map(counted).collect();
        self.links.clear();
        self.ports.clear();
        self.others.clear();
        self.pools.retain(|pool| Rc::strong_count(pool) > 1);
        let held: Vec<u16> = self.pools.iter().flat_map(|pool| pool.held()).collect();
        loop {
            match establish(&self.options, &held, None, stop) {
                Ok(established) => {
                    let pool;
                    Established { links: self.links, ports: self.ports, others: self.others, huge: self.huge, pool } =
                        established;
                    self.pools.extend(pool);
                    let ports = self.ports.iter_mut().chain(self.others.iter_mut().flatten());
                    ports.zip(counters.into_iter().flatten()).for_each(|(port, counters)| port.counters = counters);
                    return Ok(true);
                }
                // A device that is shutting down may still accept, and then refuse or disconnect.
                Err(OpenError::Link { source: FrontendError::Refused { .. }, .. }) if !stop.load(Ordering::Relaxed) => {
                    std::thread::sleep(CHECK);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the reason why a device can't be used any more, if there is one.
    fn fault(&self, port: usize) -> Option<String> {
        let all = std::iter::once(&self.ports).chain(&self.others);
        match all.filter_map(|ports| ports[port].broken).next() {
            Some(broken) => Some(format!("the device broke the ring: {broken}")),
            None if !self.links[port].is_connected() => Some("the device closed the connection".to_owned()),
            None => None,
        }
    }

    /// Sleeps until a frame arrives at a port of the first worker, for at most `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> Result<(), WaitError> {
        wait(&mut self.ports, timeout)
    }
}

impl Deref for Ports {
    type Target = [Port];

    fn deref(&self) -> &[Port] {
        &self.ports
    }
}

impl DerefMut for Ports {
    fn deref_mut(&mut self) -> &mut [Port] {
        &mut self.ports
    }
}

/// Links to all devices, and the ports of each worker.
struct Established {
    links: Vec<Link>,
    ports: Vec<Port>,
    others: Vec<Vec<Port>>,
    huge: bool,
    /// The pool, if it is of a group.
    pool: Option<Rc<Pool>>,
}

/// Opens all ports over one new arena. Packets may still lie in buffers of a group that are `held`.
fn establish(
    options: &Options,
    held: &[u16],
    timeout: Option<Duration>,
    stop: &AtomicBool,
) -> Result<Established, OpenError> {
    if !(64..=32768).contains(&options.buffer_size) {
        return Err(OpenError::BufferSize { size: options.buffer_size });
    }
    for port in &options.ports {
        let needed = port.aggregation.as_ref().map_or(0, Aggregation::longest);
        if needed > options.buffer_size {
            return Err(OpenError::AggregateSize { socket: port.socket.clone(), needed, size: options.buffer_size });
        }
    }
    // For each worker, enough that full queues never leave another queue without buffers.
    let in_queues: usize =
        options.ports.iter().map(|p| 2 * usize::from(p.queue_pairs) * usize::from(p.queue_size)).sum();
    let split = options.ports.iter().filter(|port| port.aggregation.is_some()).count() * usize::from(SPLIT_BUFFERS);
    let buffers = in_queues + split + usize::from(options.spare_buffers);
    let count = u16::try_from(buffers).map_err(|_| OpenError::TooManyBuffers { buffers, max: u16::MAX })?;
    if options.exchange == Exchange::Group && options.workers > 1 {
        return Err(OpenError::GroupWorkers(options.workers));
    }
    let rings: u64 = options
        .ports
        .iter()
        .map(|port| {
            let areas = QueueConfig::area_sizes(Negotiated(port.features()).format(), port.queue_size);
            // A device may decline packed rings; split ones take more.
            let split = QueueConfig::area_sizes(virtqueue::Format::Split, port.queue_size);
            let one = areas.sum().max(split.sum()) + 3 * 64;
            2 * u64::from(port.queue_pairs) * one
        })
        .sum();
    let in_arena = match options.exchange {
        Exchange::None => Pool::footprint(count, options.buffer_size),
        Exchange::Group | Exchange::Pages(_) => 0,
    };
    let len = u64::from(options.workers) * (in_arena + rings);
    let (mut membership, mut area) = (None, None);
    let exchange = match &options.exchange {
        Exchange::None => None,
        Exchange::Group => {
            let new = Arc::new(Membership::new(count).map_err(OpenError::Membership)?);
            Some(frontend::Exchange::Group(membership.insert(new).clone()))
        }
        Exchange::Pages(device) => {
            let memory = pages(device, u32::from(options.workers) * u32::from(count), options.buffer_size)?;
            Some(frontend::Exchange::Pages(area.insert(Arc::new(memory)).regions()[0].clone()))
        }
    };
    let mut arena = Arena::new(len, options.huge_pages)?;
    let (mut links, mut pairs) = (Vec::new(), Vec::new());
    for port in &options.ports {
        let wanted = FrontendOptions {
            socket: port.socket.clone(),
            mode: port.mode,
            queue_pairs: options.workers.saturating_mul(port.queue_pairs),
            queue_sizes: port.queue_size.into(),
            features: port.features(),
            exchange: exchange.clone(),
        };
        let failed = |source| OpenError::Link { socket: port.socket.clone(), source };
        let (link, of_all) = Link::establish(&wanted, &mut arena, timeout, stop).map_err(failed)?;
        links.push(link);
        pairs.push(of_all.into_iter());
    }
    let member = membership.and_then(|membership| membership.member());
    if let Some(group) = member.as_ref().map(|member| member.grant.geometry.size())
        && (group as usize) < options.buffer_size
    {
        return Err(OpenError::GroupBuffers { group, wanted: options.buffer_size });
    }
    let pool = member.map(|member| Pool::of_group(&member, held));
    let mut part = |worker: u16| -> Vec<Port> {
        let mut own = || match &area {
            Some(area) => Pool::of_pages(area, u32::from(worker) * u32::from(count), count),
            None => Pool::allocate(&mut arena, count, options.buffer_size),
        };
        let pool = pool.clone().unwrap_or_else(|| own().expect("the memory was made to fit"));
        let own = options.ports.iter().zip(&links).zip(&mut pairs);
        own.map(|((port, link), pairs)| {
            Port::new(port, link.negotiated(), pairs.by_ref().take(port.queue_pairs.into()), &pool)
        })
        .collect()
    };
    let ports = part(0);
    let others = (1..options.workers).map(part).collect();
    Ok(Established { links, ports, others, huge: arena.is_huge(), pool })
}

/// Returns an area of pages to exchange, which hold frames of `size` bytes.
fn pages(device: &Path, count: u32, size: usize) -> Result<Memory, OpenError> {
    let most = Pool::LONGEST_IN_PAGE;
    if size > most {
        return Err(OpenError::PageSize { size, most });
    }
    // Others' packets may lie in pages that go to a third function.
    let area = Device::find(device)?.create(count, Leftovers::Zeroed)?;
    let len = u64::from(count) * zcopy::PAGE as u64;
    let addr = Buffers::AREA;
    Ok(Memory::map(vec![Region { guest_addr: addr, user_addr: addr, len, offset: 0, file: Arc::new(area.into()) }])?)
}
