//! Counters of aggregation: by queue of a port, and within it by next hop.

use crate::counters::Counter;
use crate::stats::{AggregationSide, PACKETS_BOUNDS, SIZE_BOUNDS};
use packet::Frame;
use paflow::Nfi;
use std::sync::{Arc, Mutex, OnceLock};

/// Returns the length of the frames if all have the same, like most bursts.
#[inline(always)]
pub(crate) fn common_len(frames: &[Frame<'_>]) -> Option<u32> {
    let len = frames.first()?.len();
    // Comparing all is faster than stopping at the first different one.
    let difference = frames.iter().fold(0, |difference, frame| difference | (frame.len() ^ len));
    (difference == 0).then_some(len)
}

/// A frame on the wire, as it is counted.
#[derive(Clone, Copy, Default)]
pub(crate) struct WireFrame {
    /// Bytes of the frame.
    pub(crate) len: u32,
    /// Number of packets in it.
    pub(crate) packets: usize,
    pub(crate) is_aggregate: bool,
}

impl WireFrame {
    /// Returns a frame that is a packet.
    #[inline(always)]
    pub(crate) fn packet(len: u32) -> WireFrame {
        WireFrame { len, packets: 1, is_aggregate: false }
    }
}

/// Counters of one direction of a queue: frames on the wire, and packets in them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Side {
    /// Packets, joined or not.
    pub packets: Counter,
    /// Frames on the wire, each with one packet or several.
    pub frames: Counter,
    /// Bytes of these frames.
    pub bytes: Counter,
    /// Of these, aggregates.
    pub aggregates: Counter,
    /// Frames by length.
    sizes: [Counter; SIZE_BOUNDS.len()],
    /// Frames by number of packets.
    held: [Counter; PACKETS_BOUNDS.len()],
}

impl Side {
    /// Counts frames. Frames of one kind come in runs, and a run is counted at once.
    #[inline(always)]
    pub(crate) fn count(&self, all: impl Iterator<Item = WireFrame>) {
        let (mut packets, mut frames, mut bytes, mut aggregates) = (0, 0, 0, 0);
        let (mut first, mut run) = (WireFrame::default(), 0);
        for frame in all {
            packets += frame.packets as u64;
            frames += 1;
            bytes += u64::from(frame.len);
            aggregates += u64::from(frame.is_aggregate);
            if (frame.len, frame.packets) != (first.len, first.packets) {
                self.classify(first, run);
                (first, run) = (frame, 0);
            }
            run += 1;
        }
        self.classify(first, run);
        self.packets.add(packets);
        self.frames.add(frames);
        self.bytes.add(bytes);
        self.aggregates.add(aggregates);
    }

    /// The same for frames that are packets. `common` is the length of all, if [`common_len`] found one.
    #[inline(always)]
    pub(crate) fn count_packets(&self, frames: &[Frame<'_>], common: Option<u32>) {
        let Some(len) = common else { return self.count(frames.iter().map(|frame| WireFrame::packet(frame.len()))) };
        let count = frames.len() as u64;
        self.packets.add(count);
        self.frames.add(count);
        self.bytes.add(count * u64::from(len));
        self.classify(WireFrame::packet(len), count);
    }

    /// Adds a run of frames like this one to the histograms.
    #[inline(always)]
    fn classify(&self, frame: WireFrame, run: u64) {
        let class = SIZE_BOUNDS.iter().position(|&bound| frame.len <= bound).unwrap_or(SIZE_BOUNDS.len() - 1);
        self.sizes[class].add(run);
        // 1, 2, 3..4, 5..8 and so on: the logarithm.
        let class = (usize::BITS - (frame.packets.max(1) - 1).leading_zeros()) as usize;
        self.held[class.min(PACKETS_BOUNDS.len() - 1)].add(run);
    }

    pub(crate) fn add_to(&self, stats: &mut AggregationSide) {
        stats.packets += self.packets.get();
        stats.frames += self.frames.get();
        stats.bytes += self.bytes.get();
        stats.aggregates += self.aggregates.get();
        stats.sizes.iter_mut().zip(&self.sizes).for_each(|(sum, counter)| *sum += counter.get());
        stats.held.iter_mut().zip(&self.held).for_each(|(sum, counter)| *sum += counter.get());
    }
}

/// Counters of one next hop at one queue. Packets that travel alone are only counted by queue, so that a burst in which nothing
/// can be joined needs no look-up.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct HopCounters {
    /// Aggregates.
    pub aggregates: Counter,
    /// Packets in them.
    pub packets: Counter,
}

/// Counters of the queues of a port that aggregates, and of their lanes, each from when it first was up.
#[derive(Debug)]
pub(crate) struct PortTraffic(Box<[OnceLock<Arc<Traffic>>]>);

impl PortTraffic {
    /// Returns room for the counters of this many queues and lanes.
    pub(crate) fn new(count: usize) -> PortTraffic {
        PortTraffic((0..count).map(|_| OnceLock::new()).collect())
    }

    /// Returns the counters of a queue or lane.
    pub(crate) fn of(&self, index: usize) -> &Arc<Traffic> {
        self.0[index].get_or_init(Arc::default)
    }

    /// Returns the counters of all that ever were up.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Traffic> {
        self.0.iter().filter_map(OnceLock::get).map(|traffic| &**traffic)
    }
}

/// Counters of one queue of a port that aggregates.
#[derive(Debug, Default)]
pub struct Traffic {
    /// From the network.
    pub received: Side,
    /// To the network.
    pub sent: Side,
    /// By next hop. Accessed when the rules change, not on the path of a packet.
    hops: Mutex<Vec<(Nfi, Arc<HopCounters>)>>,
}

impl Traffic {
    /// Returns the counters of a next hop, which outlive changes of the rules.
    pub(crate) fn hop(&self, nfi: Nfi) -> Arc<HopCounters> {
        let mut hops = self.hops.lock().unwrap();
        if let Some((_, counters)) = hops.iter().find(|(other, _)| *other == nfi) {
            return counters.clone();
        }
        let counters = Arc::<HopCounters>::default();
        hops.push((nfi, counters.clone()));
        counters
    }
}
