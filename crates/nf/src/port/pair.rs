//! The two queues of a pair, and the packets that the device owns.

use crate::memory::{Packet, Pool, Segment};
use std::rc::Rc;
use vhost_user::Event;
use vhost_user::frontend::{DriverQueue, QueuePair, Returned};
use virtqueue::driver::Buffer;
use virtqueue::{Fatal, NET_HEADER, Negotiated, features, ordering};

/// Maximum number of frames received at once.
pub(crate) const BURST: usize = 32;

/// A device's violation of virtio, after which it is not used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum Broken {
    #[error(transparent)]
    Ring(#[from] Fatal),
    #[error("a frame of {len} bytes in a buffer of {size}")]
    Length { len: u32, size: u16 },
    #[error("a frame over {announced} buffers, of which {used} were used")]
    Buffers { announced: u16, used: u16 },
    #[error("a buffer of the group that it cannot own ({instead:?}, if it is not the one that it got)")]
    Exchange { instead: Option<u16> },
}

/// A queue, with the packet or buffer of each chain that the device owns.
type HeldQueue<Held> = DriverQueue<Option<Held>>;

/// Adds a chain for which there are free descriptors.
#[inline]
fn add<Held>(queue: &mut HeldQueue<Held>, buffers: &[Buffer], held: Held) {
    queue.add_with(buffers, Some(held)).expect("the caller looked for free descriptors");
}

/// A used packet or buffer.
struct Used<Held> {
    held: Held,
    /// Bytes that the device wrote.
    len: u32,
    /// Number of the buffer that came back instead.
    instead: Option<u16>,
}

/// Returns the next used packet or buffer.
#[inline]
fn pop<Held>(queue: &mut HeldQueue<Held>) -> Result<Option<Used<Held>>, Fatal> {
    let used = |returned: Returned<'_, Option<Held>>| {
        let Returned { entry, len, instead, .. } = returned;
        Used { held: entry.take().expect("the queue knows its chains"), len, instead }
    };
    Ok(queue.pop()?.map(used))
}

/// Takes a buffer back, or the one that came back instead.
#[inline]
fn take_back(segment: &mut Segment, instead: Option<u16>) -> Result<(), Broken> {
    segment.come_back(instead).ok_or(Broken::Exchange { instead })
}

pub(crate) struct Pair {
    receive: HeldQueue<Segment>,
    transmit: HeldQueue<Packet>,
    pool: Rc<Pool>,
    index: u16,
    mergeable: bool,
    /// Whether buffers were posted since the last check whether the device waits for some.
    posted: bool,
}

impl Pair {
    pub(super) fn new(pair: QueuePair, pool: &Rc<Pool>, index: u16, negotiated: Negotiated) -> Pair {
        let mergeable = negotiated.has(features::MRG_RXBUF);
        let (receive, transmit) = (DriverQueue::new(pair.receive), DriverQueue::new(pair.transmit));
        let mut pair = Pair { receive, transmit, pool: pool.clone(), index, mergeable, posted: false };
        pair.refill();
        pair
    }

    /// Posts a buffer for every free descriptor of the receive queue, while there are free buffers.
    fn refill(&mut self) {
        while self.receive.free() > 0 {
            let Some(segment) = self.pool.take() else { break };
            let buffer = Buffer { addr: segment.addr(), len: segment.len().into(), writable: true };
            segment.go();
            add(&mut self.receive, &[buffer], segment);
        }
        self.receive.publish();
        self.posted = true;
    }

    /// Appends up to `most` frames to `burst`, and adds the number of buffers without a frame to `malformed`.
    #[inline]
    pub(crate) fn receive(&mut self, burst: &mut Vec<Packet>, most: usize, malformed: &mut u64) -> Result<(), Broken> {
        let mut taken = 0;
        while taken < most {
            let Some(Used { held: mut head, len, instead }) = pop(&mut self.receive)? else { break };
            taken += 1;
            take_back(&mut head, instead)?;
            // If the buffer is another function's, the header is that function's, too.
            let buffers = if instead.is_some() { 1 } else { self.announced(&head) };
            fit(&mut head, 0, len)?;
            if len <= NET_HEADER || buffers == 0 {
                *malformed += 1;
                continue;
            }
            head.set(NET_HEADER as i32, (len - NET_HEADER) as usize).expect("it is in the buffer");
            let mut packet = Packet::new(head, self.index);
            for used in 1..buffers {
                // All buffers of a frame are used at once (§5.1.6.4).
                let Some(Used { held: mut more, len, instead: None }) = pop(&mut self.receive)? else {
                    return Err(Broken::Buffers { announced: buffers, used });
                };
                take_back(&mut more, None)?;
                fit(&mut more, 0, len)?;
                packet.append(more);
            }
            burst.push(packet);
        }
        if taken > 0 {
            self.refill();
        } else if self.posted {
            // The check waits for all earlier stores, which costs too much for every burst. If a device ran out of buffers
            // and sleeps, we are soon idle, so it is enough to check then.
            self.posted = false;
            ordering::before_asking();
            self.receive.notify();
        }
        Ok(())
    }

    /// Returns the number of buffers of the frame that begins with `head`: `num_buffers` of the virtio header (§5.1.6.4.1).
    #[inline]
    fn announced(&self, head: &Segment) -> u16 {
        if self.mergeable { u16::from_le_bytes([head[10], head[11]]) } else { 1 }
    }

    /// Adds a packet to the transmit queue; returns it if there is no room. The device sees it after [`Pair::flush`].
    #[inline]
    pub(super) fn transmit(&mut self, mut packet: Packet) -> Result<Result<(), Packet>, Broken> {
        let needed = packet.segments().len();
        if usize::from(self.transmit.free()) < needed {
            self.reclaim()?;
            if usize::from(self.transmit.free()) < needed {
                return Ok(Err(packet));
            }
        }
        // The virtio header goes into the headroom. It is all zeros: no offloads were negotiated.
        let head = packet.head_mut();
        let len = usize::from(head.len()) + NET_HEADER as usize;
        head.set(-(NET_HEADER as i32), len).expect("the headroom is always left for it");
        let header = &mut head[..NET_HEADER as usize];
        if *header != [0; NET_HEADER as usize] {
            header.fill(0);
        }
        packet.segments().for_each(Segment::go);
        let buffer = |s: &Segment| Buffer { addr: s.addr(), len: s.len().into(), writable: false };
        if needed == 1 {
            let buffer = buffer(packet.head_mut());
            add(&mut self.transmit, &[buffer], packet);
        } else {
            let buffers: Vec<Buffer> = packet.segments().map(buffer).collect();
            add(&mut self.transmit, &buffers, packet);
        }
        Ok(Ok(()))
    }

    /// Publishes added packets to the device, and kicks it if it wants that.
    #[inline]
    pub(super) fn flush(&mut self) {
        self.transmit.flush();
    }

    /// Frees all packets that the device has sent.
    pub(super) fn reclaim(&mut self) -> Result<(), Broken> {
        while let Some(Used { held: mut packet, instead, .. }) = pop(&mut self.transmit)? {
            take_back(packet.head_mut(), instead)?;
            packet.rest_mut().iter_mut().try_for_each(|segment| take_back(segment, None))?;
        }
        Ok(())
    }

    /// Turns calls for received frames on. Reports whether there are frames already.
    pub(super) fn arm(&mut self) -> bool {
        self.receive.arm()
    }

    /// Turns calls for received frames off.
    pub(super) fn disarm(&mut self) {
        self.receive.disarm();
    }

    /// Returns the call of the receive queue, readable when a frame has arrived.
    pub(super) fn call(&self) -> &Event {
        self.receive.call()
    }
}

/// Sets the length of `segment` to the one that the device reports.
#[inline]
fn fit(segment: &mut Segment, start: i32, len: u32) -> Result<(), Broken> {
    let size = segment.len();
    if len > size.into() {
        return Err(Broken::Length { len, size });
    }
    segment.set(start, len as usize).ok_or(Broken::Length { len, size })
}
