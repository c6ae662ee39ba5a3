//! Two functions of one owner and the switch between them in one process.

use super::super::rig::RigError;
use super::setup::{Setup, Way};
use crate::ring_format::RingFormat;
use engine::port::vhost_user::{Call, VhostReceive, VhostTransmit};
use engine::worker::{ByHand, InPlace};
use loadgen::load::{FixedRing, Port, Shape, Side};
use nf::memory::Buffers;
use std::sync::Arc;
use vhost_user::frontend::{Member, QueueEnd};
use virtqueue::device::{Dequeue, Enqueue};
use virtqueue::driver::Queue;
use virtqueue::exchange::{Geometry, Grant, Group, GroupOptions, HEADROOM, Joined};
use virtqueue::memory::{Arena, Memory, Region};
use virtqueue::{NET_HEADER, Negotiated, QueueConfig, features};

/// Descriptors of each ring, and frames of each function in flight at most.
pub const WINDOW: u16 = 256;
/// Buffers of a function: one for each descriptor.
const BUFFERS: u16 = 2 * WINDOW;
/// Bytes of frames that a function's buffers usually hold.
const USUAL: u32 = 2048;

/// All parts.
pub struct Rig {
    pub functions: [Port; 2],
    /// Forwarding from the first function to the second, and back.
    pub there: ByHand,
    pub back: ByHand,
    /// The functions' group, if they exchange.
    pub group: Option<Arc<Group>>,
}

/// A function, and the switch's ends of its queues.
struct Half {
    function: Port,
    from: VhostReceive,
    to: VhostTransmit,
}

impl Rig {
    /// Creates a rig.
    pub fn new(setup: &Setup, way: Way) -> Result<Rig, RigError> {
        let room = USUAL.max(u32::from(setup.size) + NET_HEADER);
        let group = match way {
            Way::Copy => None,
            Way::Exchange => {
                let geometry = Geometry::new(2 * BUFFERS, room).expect("such buffers are possible");
                Some(Group::new(GroupOptions { ports: 2, geometry, threshold: Some(0), huge: true })?)
            }
        };
        let a = half(setup, group.as_ref(), room, 0)?;
        let b = half(setup, group.as_ref(), room, 1)?;
        Ok(Rig {
            functions: [a.function, b.function],
            there: ByHand::new(Box::new(a.from), Box::new(b.to), InPlace::Never),
            back: ByHand::new(Box::new(b.from), Box::new(a.to), InPlace::Never),
            group,
        })
    }
}

/// Creates the function with this number, in `group` if there is one.
fn half(setup: &Setup, group: Option<&Arc<Group>>, room: u32, number: u16) -> Result<Half, RigError> {
    let negotiated = negotiated(setup.ring, group.is_some());
    let own = if group.is_some() { 0 } else { Buffers::footprint(BUFFERS, room as usize) };
    let rings = 2 * (QueueConfig::area_sizes(negotiated.format(), WINDOW).sum() + 3 * 4096);
    let mut arena = Arena::new(own + rings, true)?;
    let ring = |arena: &mut Arena| Queue::layout(arena, WINDOW, negotiated).expect("the arena was made to fit");
    let (receive, transmit) = (ring(&mut arena), ring(&mut arena));

    let (buffers, mut numbers, memory, joined) = match group {
        None => {
            let buffers = Buffers::allocate(&mut arena, BUFFERS, room as usize).expect("the arena was made to fit");
            (buffers, (0..BUFFERS).collect(), arena.memory().clone(), None)
        }
        Some(group) => {
            let seat = group.join(number.into(), BUFFERS).expect("there are as many buffers");
            let region = region(group);
            let memory = Arc::new(arena.memory().with_region(region.clone())?);
            let joined = Joined::find(&seat, number, &memory).expect("the group's memory is in it");
            let member = Member { grant: Grant::of(&seat), memory: Arc::new(Memory::map(vec![region])?) };
            (Buffers::of_group(&member).behind(HEADROOM), member.grant.buffers, memory, Some(joined))
        }
    };
    let buffers = Arc::new(buffers);
    let mut side = |config: &QueueConfig, len: u32, writable| -> Result<Side, RigError> {
        let end = QueueEnd::create(Queue::new(&arena, config)?, *config)?;
        let slots = numbers.split_off(numbers.len() - usize::from(WINDOW)).into();
        Ok(Side { ring: FixedRing::new(&arena, config, (&buffers, slots), len, writable), kick: end.kick })
    };
    let incoming = side(&receive, room.min(buffers.size() as u32), true)?;
    let outgoing = side(&transmit, u32::from(setup.size) + NET_HEADER, false)?;
    let (here, there) = (usize::from(number), usize::from(1 - number));
    let shapes = (Shape::new(here, there, setup.size), Shape::new(there, here, setup.size));

    let mut to = Enqueue::new(memory.clone(), &receive)?;
    let mut from = Dequeue::new(memory, &transmit)?;
    if let Some(joined) = joined {
        to.allow_exchange(joined.clone());
        from.allow_exchange(joined);
    }
    Ok(Half {
        function: Port::new(incoming, outgoing, shapes.0, shapes.1),
        from: VhostReceive::new(from, None, Call::new(None), Arc::default(), Arc::default()),
        to: VhostTransmit::new(to, Call::new(None), Arc::default(), Arc::default()),
    })
}

/// Returns the features that the switch negotiates with a function.
fn negotiated(ring: RingFormat, exchanges: bool) -> Negotiated {
    let packed = if ring == RingFormat::Packed { features::RING_PACKED } else { 0 };
    let exchange = if exchanges { features::EXCHANGE } else { 0 };
    Negotiated(features::VERSION_1 | features::MRG_RXBUF | features::IN_ORDER | packed | exchange)
}

/// Returns the memory of a group as a function shares it with the switch.
fn region(group: &Group) -> Region {
    let len = group.options().geometry.bytes().next_multiple_of(4096);
    Region { guest_addr: Member::ADDRESS, user_addr: Member::ADDRESS, len, offset: 0, file: group.file().clone() }
}
