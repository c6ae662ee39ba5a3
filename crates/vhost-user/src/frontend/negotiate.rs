//! The message exchange from a new connection to running queues.

use super::error::{FrontendError, refused};
use super::{Exchange, FrontendOptions, QueueEnd, QueuePair, QueueSizes, by_hand};
use crate::Event;
use rustix::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use vhost::vhost_user::message::VhostUserHeaderFlag;
use vhost::vhost_user::{Frontend, VhostUserFrontend, VhostUserProtocolFeatures as ProtocolFeatures};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use virtqueue::driver::Queue;
use virtqueue::memory::{Arena, Region};
use virtqueue::{Negotiated, QueueConfig, features, offload};
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

/// Regions in a memory table: vhost-user's own limit for SET_MEM_TABLE.
const MAX_TABLE: usize = 8;

fn system(action: &'static str) -> impl FnOnce(std::io::Error) -> FrontendError {
    move |source| FrontendError::System { action, source }
}

pub(super) fn negotiate(
    stream: &UnixStream,
    options: &FrontendOptions,
    arena: &mut Arena,
) -> Result<(Frontend, Negotiated, Vec<QueuePair>), FrontendError> {
    let queues = 2 * usize::from(options.queue_pairs);
    let clone = stream.try_clone().map_err(system("duplicate the connection"))?;
    let mut device = Frontend::from_stream(clone, queues as u64);
    let negotiated = agree(&mut device, stream, options)?;
    let exchanged = match &options.exchange {
        Some(Exchange::Group(membership)) => Some(membership.join(&mut device)?),
        Some(Exchange::Pages(area)) => Some(area.clone()),
        None => None,
    };
    share(&device, arena, exchanged.as_slice())?;
    let mut ends = Vec::with_capacity(queues);
    for index in 0..queues {
        let QueueSizes { receive, transmit } = options.queue_sizes;
        let size = if index.is_multiple_of(2) { receive } else { transmit };
        let config = Queue::layout(arena, size, negotiated).ok_or(FrontendError::ArenaFull(index))?;
        let queue = Queue::new(arena, &config).map_err(|source| FrontendError::Setup { index, source })?;
        ends.push(start(&device, stream, arena, index, &config, queue)?);
    }
    if negotiated.has(features::PROTOCOL_FEATURES) {
        for index in 0..queues {
            device.set_vring_enable(index, true).map_err(refused("SET_VRING_ENABLE"))?;
        }
    }
    let mut ends = ends.into_iter();
    let pairs = std::iter::from_fn(|| Some(QueuePair { receive: ends.next()?, transmit: ends.next()? })).collect();
    Ok((device, negotiated, pairs))
}

/// Shares the memory of `arena` and `others` with the device. When this returns, the device has it.
pub(super) fn share(device: &Frontend, arena: &Arena, others: &[Region]) -> Result<(), FrontendError> {
    let regions: Vec<_> = arena.memory().regions().iter().chain(others).map(info).collect();
    if regions.len() > MAX_TABLE {
        return Err(FrontendError::TooManyRegions { count: regions.len(), max: MAX_TABLE });
    }
    device.set_mem_table(&regions).map_err(refused("SET_MEM_TABLE"))?;
    // Without REPLY_ACK only this tells when the device has the table, as it answers requests in their order.
    device.get_features().map(|_| ()).map_err(refused("SET_MEM_TABLE"))
}

/// Negotiates features.
fn agree(device: &mut Frontend, stream: &UnixStream, options: &FrontendOptions) -> Result<Negotiated, FrontendError> {
    device.set_owner().map_err(refused("SET_OWNER"))?;
    let offered = device.get_features().map_err(refused("GET_FEATURES"))?;
    if offered & features::VERSION_1 == 0 {
        return Err(FrontendError::Legacy);
    }
    let mq = if options.queue_pairs > 1 { features::MQ } else { 0 };
    let exchange = if options.exchange.is_some() { features::EXCHANGE } else { 0 };
    let joins = matches!(options.exchange, Some(Exchange::Group(_)));
    let wanted = options.features | features::VERSION_1 | features::PROTOCOL_FEATURES | mq | exchange;
    let mut accepted = offload::settled(offered & wanted);
    if options.exchange.is_some() && !joins {
        // Chains whose pages are exchanged come back by themselves.
        accepted &= !features::IN_ORDER;
    }
    let mut shares = false;
    let mut pairs = 1;
    if accepted & features::PROTOCOL_FEATURES != 0 {
        let offered = device.get_protocol_features().map_err(refused("GET_PROTOCOL_FEATURES"))?;
        let wanted = ProtocolFeatures::MQ | ProtocolFeatures::REPLY_ACK;
        let objects = ProtocolFeatures::SHARED_OBJECT;
        shares = offered.contains(objects) && joins;
        let accepted = offered & if shares { wanted | objects } else { wanted };
        device.set_protocol_features(accepted).map_err(refused("SET_PROTOCOL_FEATURES"))?;
        if accepted.contains(ProtocolFeatures::MQ) {
            pairs = by_hand::get_queue_pairs(stream).map_err(system("ask for the number of queues"))?;
        }
        if accepted.contains(ProtocolFeatures::REPLY_ACK) {
            // From here on every message is answered, so an error names the message that was refused.
            device.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        }
    }
    if accepted & exchange != exchange || joins && !shares {
        return Err(FrontendError::NoExchange);
    }
    if pairs < options.queue_pairs.into() {
        return Err(FrontendError::TooFewQueues { wanted: options.queue_pairs, offered: pairs });
    }
    device.set_features(accepted).map_err(refused("SET_FEATURES"))?;
    Ok(Negotiated(accepted))
}

fn info(r: &Region) -> VhostUserMemoryRegionInfo {
    VhostUserMemoryRegionInfo {
        guest_phys_addr: r.guest_addr,
        memory_size: r.len,
        userspace_addr: r.user_addr,
        mmap_offset: r.offset,
        mmap_handle: r.file.as_raw_fd(),
    }
}

/// Starts one queue at the device.
pub(super) fn start(
    device: &Frontend,
    stream: &UnixStream,
    arena: &Arena,
    index: usize,
    config: &QueueConfig,
    queue: Queue,
) -> Result<QueueEnd, FrontendError> {
    let user = |addr: u64| {
        let regions = arena.memory().regions();
        let region = regions.iter().find(|r| (r.guest_addr..r.guest_addr + r.len).contains(&addr));
        region.map(|r| r.user_addr + (addr - r.guest_addr)).ok_or(FrontendError::ArenaFull(index))
    };
    let rings = VringConfigData {
        queue_max_size: config.size,
        queue_size: config.size,
        flags: 0,
        desc_table_addr: user(config.descriptors)?,
        used_ring_addr: user(config.device)?,
        avail_ring_addr: user(config.driver)?,
        log_addr: None,
    };
    let kick = EventFd::new(EFD_CLOEXEC | EFD_NONBLOCK).map_err(system("make an eventfd"))?;
    let call = EventFd::new(EFD_CLOEXEC | EFD_NONBLOCK).map_err(system("make an eventfd"))?;
    device.set_vring_call(index, &call).map_err(refused("SET_VRING_CALL"))?;
    device.set_vring_num(index, config.size).map_err(refused("SET_VRING_NUM"))?;
    by_hand::set_vring_base(stream, index, config.base).map_err(system("send SET_VRING_BASE"))?;
    device.set_vring_addr(index, &rings).map_err(refused("SET_VRING_ADDR"))?;
    device.set_vring_kick(index, &kick).map_err(refused("SET_VRING_KICK"))?;
    Ok(QueueEnd { queue, config: *config, kick: shared(kick)?, call: shared(call)? })
}

fn shared(event: EventFd) -> Result<Event, FrontendError> {
    // SAFETY: `into_raw_fd` gives up the only owner of an open descriptor.
    let fd = unsafe { OwnedFd::from_raw_fd(event.into_raw_fd()) };
    Event::take(fd, None)
        .map_err(|e| FrontendError::System { action: "use an eventfd", source: std::io::Error::other(e) })
}
