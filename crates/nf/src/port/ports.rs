//! Ports that are opened together: they share memory, so that a packet moves between them without a copy.

use super::{Counters, Options, Pair, Port};
use crate::aggregate::{Aggregation, SPLIT_BUFFERS};
use crate::memory::Pool;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vhost_user::Event;
use vhost_user::frontend::{FrontendError, FrontendOptions, Link};
use virtqueue::memory::{Arena, MemoryError};
use virtqueue::{Negotiated, QueueConfig};

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
    #[error("there is no memory for the ports: {0}")]
    Memory(#[from] MemoryError),
    #[error("port {}: {source}", socket.display())]
    Link { socket: PathBuf, source: FrontendError },
    #[error("can't handle signals: {0}")]
    Signals(std::io::Error),
    #[error("port {}: {reason}", socket.display())]
    Lost { socket: PathBuf, reason: String },
}

/// Failure to sleep.
#[derive(Debug, thiserror::Error)]
#[error("can't wait for frames: {0}")]
pub struct WaitError(#[from] std::io::Error);

/// Ports with common memory. Dereferences to the ports, in the order of [`Options::ports`].
///
/// When one device disconnects, all links are closed and established again over new memory: a device that is still
/// running may write to the old memory. Packets received before stay valid.
pub struct Ports {
    options: Options,
    ports: Vec<Port>,
    huge: bool,
    checked: Instant,
}

impl Ports {
    /// Connects to all devices; `stop` cancels the attempt.
    pub fn open(options: Options, stop: &AtomicBool) -> Result<Ports, OpenError> {
        let counters = vec![Counters::default(); options.ports.len()];
        let (ports, huge) = establish(&options, options.timeout, &counters, stop)?;
        Ok(Ports { options, ports, huge, checked: Instant::now() })
    }

    /// Returns the kind of pages of the memory, as text.
    pub fn memory(&self) -> &'static str {
        if self.huge { "huge pages" } else { "normal pages" }
    }

    /// Checks periodically whether the devices are still connected. If one is not, reopens all ports, without a time limit,
    /// or fails if [`Options::reconnect`] is not set. To be called regularly. Returns true if the ports were reopened.
    pub fn check(&mut self, stop: &AtomicBool) -> Result<bool, OpenError> {
        if self.checked.elapsed() < CHECK {
            return Ok(false);
        }
        self.checked = Instant::now();
        let Some((port, reason)) = self.ports.iter().find_map(|port| Some((port, port.fault()?))) else {
            return Ok(false);
        };
        if !self.options.reconnect {
            return Err(OpenError::Lost { socket: port.socket.clone(), reason });
        }
        let counters: Vec<Counters> = self.ports.iter().map(Port::counters).collect();
        self.ports.clear();
        loop {
            match establish(&self.options, None, &counters, stop) {
                Ok((ports, huge)) => {
                    (self.ports, self.huge) = (ports, huge);
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

    /// Sleeps until a frame arrives, for at most `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> Result<(), WaitError> {
        let mut any = false;
        for port in &mut self.ports {
            port.reclaim();
            port.pairs.iter_mut().for_each(|pair| any |= pair.arm());
        }
        let outcome = if any {
            Ok(())
        } else {
            let calls: Vec<_> = self.ports.iter().flat_map(|port| &port.pairs).map(|pair| pair.call()).collect();
            sleep(&calls, timeout)
        };
        for port in &mut self.ports {
            port.pairs.iter_mut().for_each(Pair::disarm);
        }
        outcome
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

fn sleep(calls: &[&Event], timeout: Duration) -> Result<(), WaitError> {
    let mut fds: Vec<PollFd<'_>> = calls.iter().map(|call| PollFd::new(*call, PollFlags::IN)).collect();
    let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(WaitError(error.into())),
    }
    for (fd, call) in fds.iter().zip(calls) {
        if fd.revents().contains(PollFlags::IN) {
            call.clear();
        }
    }
    Ok(())
}

/// Opens all ports over one new arena.
fn establish(
    options: &Options,
    timeout: Option<Duration>,
    counters: &[Counters],
    stop: &AtomicBool,
) -> Result<(Vec<Port>, bool), OpenError> {
    if !(64..=32768).contains(&options.buffer_size) {
        return Err(OpenError::BufferSize { size: options.buffer_size });
    }
    for port in &options.ports {
        let needed = port.aggregation.as_ref().map_or(0, Aggregation::longest);
        if needed > options.buffer_size {
            return Err(OpenError::AggregateSize { socket: port.socket.clone(), needed, size: options.buffer_size });
        }
    }
    // Enough that full queues never leave another queue without buffers.
    let in_queues: usize =
        options.ports.iter().map(|p| 2 * usize::from(p.queue_pairs) * usize::from(p.queue_size)).sum();
    let split = options.ports.iter().filter(|port| port.aggregation.is_some()).count() * usize::from(SPLIT_BUFFERS);
    let buffers = in_queues + split + usize::from(options.spare_buffers);
    let count = u16::try_from(buffers).map_err(|_| OpenError::TooManyBuffers { buffers, max: u16::MAX })?;
    let rings: u64 = options
        .ports
        .iter()
        .map(|port| {
            let areas = QueueConfig::area_sizes(Negotiated(port.features()).format(), port.queue_size);
            // A device may decline packed rings; split ones take more.
            let split = QueueConfig::area_sizes(virtqueue::Format::Split, port.queue_size);
            let one = (areas.0 + areas.1 + areas.2).max(split.0 + split.1 + split.2) + 3 * 64;
            2 * u64::from(port.queue_pairs) * one
        })
        .sum();
    let len = Pool::footprint(count, options.buffer_size) + rings;
    let mut arena = Arena::new(len, options.huge_pages)?;
    let mut links = Vec::new();
    for port in &options.ports {
        let wanted = FrontendOptions {
            socket: port.socket.clone(),
            mode: port.mode,
            queue_pairs: port.queue_pairs,
            queue_sizes: port.queue_size.into(),
            features: port.features(),
        };
        let failed = |source| OpenError::Link { socket: port.socket.clone(), source };
        links.push(Link::establish(&wanted, &mut arena, timeout, stop).map_err(failed)?);
    }
    let pool = Pool::allocate(&mut arena, count, options.buffer_size).expect("the arena was made to fit");
    let ports = links
        .into_iter()
        .zip(options.ports.iter().zip(counters))
        .map(|((link, pairs), (port, counters))| Port::new(port, link, pairs, &pool, *counters));
    Ok((ports.collect(), arena.is_huge()))
}
