//! Socket set-up and binding.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::{
    set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size, set_xdp_umem_fill_ring_size,
    set_xdp_umem_reg, xdp_mmap_offsets, xdp_options,
};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpOptionsFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use super::Queue;
use super::config::{Bound, Mode, QueueConfig};
use super::halves::{Completion, Fill, Rx, Tx};
use super::socket::{Socket, set_tx_budget};
use crate::ring::{self, Consumer, Producer};
use crate::{Error, Interface, Result, Umem};

/// Pauses between two attempts to bind: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

impl Queue {
    /// Opens a queue of an interface in the calling thread's network namespace.
    ///
    /// If the memory already serves an open queue, the new one shares that queue's mode, wake-up setting and
    /// multi-buffer setting: `config` must agree with them.
    pub fn open(umem: &Arc<Umem>, interface: &Interface, queue: u32, config: &QueueConfig) -> Result<Self> {
        config.check(&interface.name)?;
        open(umem, interface, queue, config)
    }
}

pub(super) fn open(umem: &Arc<Umem>, interface: &Interface, queue: u32, config: &QueueConfig) -> Result<Queue> {
    let name = &interface.name;
    let fd = create(name)?;

    let rings = "choose smaller rings";
    set_xdp_umem_fill_ring_size(&fd, config.fill).map_err(Error::system(name, "set up a fill ring", rings))?;
    set_xdp_umem_completion_ring_size(&fd, config.completion).map_err(Error::system(
        name,
        "set up a completion ring",
        rings,
    ))?;
    set_xdp_rx_ring_size(&fd, config.rx).map_err(Error::system(name, "set up a receive ring", rings))?;
    set_xdp_tx_ring_size(&fd, config.tx).map_err(Error::system(name, "set up a transmit ring", rings))?;
    let wanted = config.tx_budget.min(config.tx).max(QueueConfig::LEAST_BUDGET);
    let known = wanted <= config.tx
        && set_tx_budget(fd.as_fd(), wanted).map_err(Error::system(name, "set what a wake-up sends", rings))?;
    let tx_budget = if known { wanted } else { QueueConfig::LEAST_BUDGET };

    let failed =
        |source| Error::system::<io::Error>(name, "map the rings", "check the memory limits of the process")(source);
    let offsets = xdp_mmap_offsets(&fd).map_err(|errno| failed(errno.into()))?;
    let fill = ring::map(fd.as_fd(), XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, config.fill).map_err(failed)?;
    let completion =
        ring::map(fd.as_fd(), XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, config.completion).map_err(failed)?;
    let rx = ring::map(fd.as_fd(), XDP_PGOFF_RX_RING, &offsets.rx, config.rx).map_err(failed)?;
    let tx = ring::map(fd.as_fd(), XDP_PGOFF_TX_RING, &offsets.tx, config.tx).map_err(failed)?;

    let socket = Binding { umem, interface, queue, config, tx_budget, registered: false }.complete(fd)?;
    Ok(Queue {
        fill: Fill { ring: Producer::new(fill), socket: socket.clone() },
        rx: Rx { ring: Consumer::new(rx), socket: socket.clone() },
        tx: Tx { ring: Producer::new(tx), socket: socket.clone() },
        completion: Completion { ring: Consumer::new(completion), socket },
    })
}

/// Creates an unbound socket.
fn create(interface: &str) -> Result<OwnedFd> {
    socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None).map_err(|errno| match errno {
        Errno::PERM => {
            Error::Permission { action: "open an AF_XDP socket", capability: "CAP_NET_RAW", source: errno.into() }
        }
        Errno::AFNOSUPPORT => Error::Unsupported {
            interface: interface.to_owned(),
            what: "AF_XDP sockets",
            help: "the kernel was built without CONFIG_XDP_SOCKETS",
            source: errno.into(),
        },
        errno => Error::system(interface, "open an AF_XDP socket", "check the limit on open files")(errno),
    })
}

/// A socket that is being bound to a queue.
struct Binding<'a> {
    umem: &'a Arc<Umem>,
    interface: &'a Interface,
    queue: u32,
    config: &'a QueueConfig,
    tx_budget: u32,
    /// The socket registered the memory itself, rather than sharing another socket's registration.
    registered: bool,
}

impl Binding<'_> {
    /// Binds the socket, and retries while the queue is taken.
    fn complete(mut self, fd: OwnedFd) -> Result<Arc<Socket>> {
        let (mut pause, longest) = PAUSES;
        let start = Instant::now();
        loop {
            // Locked only while trying, not during the pauses: other threads may open queues with this memory meanwhile.
            let mut sockets = self.umem.sockets();
            sockets.retain(|socket| socket.strong_count() > 0);
            // Held only for this attempt: it may be the very socket whose release we wait for.
            let peer = sockets.iter().find_map(Weak::upgrade);
            match self.attempt(&fd, peer.as_deref())? {
                Ok(()) => {
                    let socket = Arc::new(self.finish(fd, peer.as_deref())?);
                    sockets.push(Arc::downgrade(&socket));
                    return Ok(socket);
                }
                Err(errno) if self.is_busy(errno, peer.as_deref()) => {
                    if start.elapsed() >= self.config.busy_wait {
                        let interface = self.interface.name.clone();
                        return Err(Error::QueueBusy { interface, queue: self.queue, waited: self.config.busy_wait });
                    }
                }
                Err(errno) => return Err(self.explain(errno)),
            }
            // The peer first: `Umem::settle` waits for the lock, and then expects that nobody refers to a peer.
            drop(peer);
            drop(sockets);
            thread::sleep(pause);
            pause = (pause * 2).min(longest);
        }
    }

    /// Binds once. The outer error is final; the inner one is the errno of bind(2).
    fn attempt(&mut self, fd: &OwnedFd, peer: Option<&Socket>) -> Result<Result<(), Errno>> {
        let (index, queue) = (self.interface.index, self.queue);
        if let Some(peer) = peer.filter(|_| !self.registered) {
            self.agree(&peer.bound)?;
            // All other options come from the other socket, and must not be repeated (`xsk_bind`).
            let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, index, queue);
            return Ok(bind(fd, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: peer.as_fd() }));
        }
        if !self.registered {
            self.register(fd)?;
            self.registered = true;
        }
        let mut flags = match self.config.mode {
            Mode::Auto => SocketAddrXdpFlags::empty(),
            Mode::ZeroCopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
            Mode::Copy => SocketAddrXdpFlags::XDP_COPY,
        };
        flags.set(SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP, self.config.need_wakeup);
        flags.set(SocketAddrXdpFlags::XDP_USE_SG, self.config.multi_buffer);
        Ok(bind(fd, &SocketAddrXdp::new(flags, index, queue)))
    }

    /// Registers the memory with the kernel.
    fn register(&self, fd: &OwnedFd) -> Result<()> {
        set_xdp_umem_reg(fd, self.umem.registration()).map_err(|errno| {
            let help = match errno {
                // ENOMEM if some pages can be pinned, EFAULT if not even the first (`xdp_umem_pin_pages`).
                Errno::FAULT | Errno::NOMEM => {
                    "all of it must be mapped readable and writable, and be anonymous, of a memfd, tmpfs or hugetlbfs, \
                     not of a file on disk"
                }
                Errno::NOBUFS => "raise the limit on locked memory (RLIMIT_MEMLOCK), or grant CAP_IPC_LOCK",
                _ => "check that there is enough memory",
            };
            Error::system(&self.interface.name, "register the memory for AF_XDP", help)(errno)
        })
    }

    /// Checks that the configuration agrees with the present use of the memory.
    fn agree(&self, peer: &Bound) -> Result<()> {
        let mode = if peer.zero_copy { Mode::ZeroCopy } else { Mode::Copy };
        let problem = if self.config.mode != Mode::Auto && self.config.mode != mode {
            format!("is in {mode:?} mode")
        } else if self.config.need_wakeup != peer.need_wakeup {
            format!("has need_wakeup = {}", peer.need_wakeup)
        } else if self.config.multi_buffer != peer.multi_buffer {
            format!("has multi_buffer = {}", peer.multi_buffer)
        } else {
            return Ok(());
        };
        Err(Error::Config {
            interface: self.interface.name.clone(),
            problem: format!(
                "queue {} shares its memory with queue {} of {:?}, which {problem}; choose the same",
                self.queue, peer.queue, peer.interface
            ),
        })
    }

    /// Reports whether the queue is taken. The kernel returns EINVAL if the socket whose memory is shared owns it.
    fn is_busy(&self, errno: Errno, peer: Option<&Socket>) -> bool {
        let same = |bound: &Bound| bound.index == self.interface.index && bound.queue == self.queue;
        errno == Errno::BUSY || errno == Errno::INVAL && peer.is_some_and(|peer| same(&peer.bound))
    }

    fn explain(&self, errno: Errno) -> Error {
        let interface = self.interface.name.clone();
        let queues = self.interface.queues;
        match errno {
            Errno::NODEV | Errno::NXIO => Error::NoInterface { interface },
            Errno::INVAL if self.queue >= queues => {
                let (queue, last) = (self.queue, queues - 1);
                Error::Config { interface, problem: format!("there is no queue {queue}; choose one of 0 to {last}") }
            }
            Errno::OPNOTSUPP if self.config.mode == Mode::ZeroCopy => Error::Unsupported {
                interface,
                what: "zero-copy AF_XDP with this memory and these options",
                help: "choose copy mode or auto; some drivers need a redirect program attached natively first",
                source: errno.into(),
            },
            Errno::OPNOTSUPP => Error::Unsupported {
                interface,
                what: "AF_XDP with these options",
                help: "try without multi_buffer, or in copy mode",
                source: errno.into(),
            },
            errno => {
                let help = "check that the interface is up, its MTU, and that frames fit into chunks";
                Error::system(&interface, "bind an AF_XDP socket", help)(errno)
            }
        }
    }

    /// Queries the resulting options.
    fn finish(self, fd: OwnedFd, peer: Option<&Socket>) -> Result<Socket> {
        let name = &self.interface.name;
        let options = xdp_options(&fd).map_err(Error::system(name, "read the mode of a socket", "check the kernel"))?;
        let peer = peer.filter(|_| !self.registered).map(|peer| &peer.bound);
        let bound = Bound {
            interface: name.clone(),
            index: self.interface.index,
            queue: self.queue,
            zero_copy: options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY),
            need_wakeup: peer.map_or(self.config.need_wakeup, |peer| peer.need_wakeup),
            multi_buffer: peer.map_or(self.config.multi_buffer, |peer| peer.multi_buffer),
            tx_budget: self.tx_budget,
        };
        Ok(Socket { fd, bound, umem: self.umem.clone() })
    }
}
