//! A queueing model of threads that share one receive queue: how many packets they process with more threads than this
//! machine has processors, and how many wait.
//!
//! It is fed with measured cycles ([`Costs`]), and assumes:
//!
//! - Each thread has a processor of its own, as near to the others as those of the measurement are.
//! - Threads take full batches: this is the most they can do. Under less load batches are shorter, and cost more per packet.
//! - Neither memory nor the NIC is a limit. The length of a frame matters to the link only, as frames are not copied.
//! - With a queue for each thread, many flows spread evenly over the queues; one flow is in one queue.
//! - With static roles, the parent and the workers are a pipeline: the slower stage limits it.
//! - Under a lock, threads are the machines of the machine-repairman model, and the lock is its one repairman: a thread works on a
//!   batch, then needs the lock for a time, and waits until those before it have had it. Both times are taken as exponentially
//!   distributed, which makes the closed form exact (mean value analysis). Constant times interfere less.
//! - If another thread had the lock before, as most often with several, the lines of the ports' state move to the processor of the
//!   thread that has it now.
//! - A thread that finds the lock taken pays for the hand-over as well: it learns of the release later, maybe asleep. It finds it
//!   taken as often as the lock is busy with all other threads (arrival theorem). So a lock that is always taken is slower than one
//!   that is taken often, and a little more work can make all threads faster.
//! - Packets that wait: packets arrive by themselves (Poisson), and each takes the same time at a thread. For each of several queues
//!   that is M/D/1, for a common one M/D/c, taken as half of the packets that wait with exponential times (M/M/c); at a parent it is M/D/1
//!   before that. Threads under a lock are as fast as their capacity says. Real arrivals come in bursts, and wait longer.
//! - A ring of some hundred descriptors loses nothing below its capacity, and everything above it.

/// Cycles of an action: a part for each batch, and a part for each packet in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub batch: f64,
    pub packet: f64,
}

impl Cost {
    /// Returns the cost that explains the cycles per packet in batches of two lengths. Neither part is negative.
    pub fn through([a, b]: [(f64, f64); 2]) -> Cost {
        let ((short, many), (long, few)) = if a.0 <= b.0 { (a, b) } else { (b, a) };
        if long - short < 0.5 {
            return Cost { batch: 0.0, packet: few };
        }
        let batch = ((many - few) / (1.0 / short - 1.0 / long)).clamp(0.0, few * long);
        Cost { batch, packet: few - batch / long }
    }

    /// Returns the cycles of a batch.
    pub fn of(self, packets: f64) -> f64 {
        self.batch + self.packet * packets
    }
}

/// Measured costs, in cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// I/O of a thread with a queue of its own.
    pub alone: Cost,
    /// I/O of a parent, with publishing and releasing.
    pub parent: Cost,
    /// Claiming and completing.
    pub worker: Cost,
    /// I/O of a thread that has the lock.
    pub locked: Cost,
    /// More for each batch if another thread had the lock before: the ports' state moves.
    pub moved: f64,
    /// More for each batch that finds the lock taken.
    pub hand_over: f64,
}

/// Ways to share that the model compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A queue for each thread, and all frames of one flow.
    RssOneFlow,
    /// A queue for each thread, and many flows.
    RssManyFlows,
    /// Threads take turns under a lock.
    Locked,
    /// Workers, and a parent besides.
    StaticRole,
    /// Workers, of which one is the parent as well.
    WorkingParent,
}

impl Kind {
    pub const ALL: [Kind; 5] =
        [Kind::RssOneFlow, Kind::RssManyFlows, Kind::Locked, Kind::StaticRole, Kind::WorkingParent];

    pub fn name(self) -> &'static str {
        match self {
            Kind::RssOneFlow => "rss, one flow",
            Kind::RssManyFlows => "rss, many flows",
            Kind::Locked => "locked",
            Kind::StaticRole => "static-role",
            Kind::WorkingParent => "static-role, parent works",
        }
    }
}

/// The model of threads with this much work.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    pub costs: Costs,
    /// Cycles of work for each packet.
    pub work: f64,
    /// Packets of a full batch.
    pub batch: f64,
}

impl Model {
    /// Returns the most packets per cycle of `threads` that process.
    pub fn capacity(&self, kind: Kind, threads: u32) -> f64 {
        let Model { costs, work, .. } = *self;
        let n = f64::from(threads);
        let own_queue = 1.0 / (work + self.each(costs.alone));
        let parent = 1.0 / self.each(costs.parent);
        match kind {
            Kind::RssOneFlow => own_queue,
            Kind::RssManyFlows => n * own_queue,
            Kind::Locked => self.batch * repairman(threads, work * self.batch, self.lock_held(threads)),
            Kind::StaticRole => (n / (work + self.each(costs.worker))).min(parent),
            // The parent works in the time that its role leaves.
            Kind::WorkingParent => (n / (work + self.each(costs.worker) + self.each(costs.parent))).min(parent),
        }
    }

    /// Returns the cycles for which a batch takes the lock that `threads` threads share.
    fn lock_held(&self, threads: u32) -> f64 {
        let think = self.work * self.batch;
        let free = self.costs.locked.of(self.batch) + self.costs.moved * (1.0 - 1.0 / f64::from(threads));
        // Both depend on each other, and rise from step to step to where they agree.
        (0..100).fold(free, |held, _| {
            let busy = held * repairman(threads - 1, think, held);
            free + self.costs.hand_over * busy
        })
    }

    /// Returns the least number of threads that reach the limit of the parent or of the lock; `None` if there is no such limit.
    pub fn saturation(&self, kind: Kind) -> Option<u32> {
        let (one, limit) = match kind {
            Kind::RssOneFlow => return Some(1),
            Kind::RssManyFlows => return None,
            Kind::StaticRole | Kind::WorkingParent => (self.capacity(kind, 1), 1.0 / self.each(self.costs.parent)),
            Kind::Locked => {
                let taken = self.costs.locked.of(self.batch) + self.costs.moved + self.costs.hand_over;
                (1.0 / (self.work * self.batch + taken), 1.0 / taken)
            }
        };
        Some((limit / one - 1e-9).ceil().max(1.0) as u32)
    }

    /// Returns the packets that wait, and the lost ones, at a load of `offered` packets per cycle.
    pub fn queue(&self, kind: Kind, threads: u32, offered: f64) -> Queue {
        let capacity = self.capacity(kind, threads);
        if offered >= capacity {
            return Queue { waiting: None, lost: 1.0 - capacity / offered };
        }
        let n = f64::from(threads);
        let at_parent = offered * self.each(self.costs.parent);
        let waiting = match kind {
            Kind::RssOneFlow => waiting(1, offered / capacity),
            Kind::RssManyFlows => n * waiting(1, offered / capacity),
            Kind::Locked => waiting(threads, offered / capacity),
            Kind::StaticRole => {
                let at_workers = offered / n * (self.work + self.each(self.costs.worker));
                waiting(1, at_parent) + waiting(threads, at_workers)
            }
            Kind::WorkingParent => waiting(1, at_parent) + waiting(threads, offered / capacity),
        };
        Queue { waiting: Some(waiting), lost: 0.0 }
    }

    /// Returns the cycles of a packet in a full batch.
    fn each(&self, cost: Cost) -> f64 {
        cost.of(self.batch) / self.batch
    }
}

/// The state of the queue under some load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// Mean number of packets that wait; `None` if the ring is full.
    pub waiting: Option<f64>,
    /// Share of packets that are lost.
    pub lost: f64,
}

/// Returns the turns per cycle of customers that think for a time and are then served one after the other, both
/// exponentially distributed: mean value analysis of the machine-repairman model.
pub fn repairman(customers: u32, think: f64, service: f64) -> f64 {
    let (mut queue, mut rate) = (0.0, 0.0);
    for customer in 1..=customers {
        let response = service * (1.0 + queue);
        rate = f64::from(customer) / (response + think);
        queue = rate * response;
    }
    rate
}

/// Returns the mean number that waits for one of some servers with constant times, each busy for this share of the time: half of
/// what waits if times are exponential. That is exact for one server.
pub fn waiting(servers: u32, busy: f64) -> f64 {
    let load = busy * f64::from(servers);
    // Erlang's B by its recursion, and C from it.
    let blocked = (1..=servers).fold(1.0, |blocked, n| load * blocked / (f64::from(n) + load * blocked));
    let waits = blocked / (1.0 - busy * (1.0 - blocked));
    waits * busy / (1.0 - busy) / 2.0
}

/// A link that packets arrive by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    pub gigabits: u16,
    pub frames: Frames,
}

/// Lengths of the frames on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// Bytes of each, without its checksum.
    Of(u16),
    /// Simple IMIX: of 12 frames 7 have 64 bytes, 4 have 590, and one has 1514.
    Imix,
}

impl Link {
    /// Returns the links of the comparison.
    pub fn all() -> impl Iterator<Item = Link> {
        let frames = [Frames::Of(64), Frames::Imix, Frames::Of(1514)];
        [10, 25, 100].into_iter().flat_map(move |gigabits| frames.map(|frames| Link { gigabits, frames }))
    }

    /// Returns the packets per second of the full link.
    pub fn packets(self) -> f64 {
        /// Preamble, checksum and gap (IEEE 802.3).
        const AROUND: f64 = 24.0;
        let bytes = match self.frames {
            Frames::Of(bytes) => f64::from(bytes),
            Frames::Imix => (7.0 * 64.0 + 4.0 * 590.0 + 1514.0) / 12.0,
        };
        f64::from(self.gigabits) * 1e9 / 8.0 / (bytes + AROUND)
    }
}

impl std::fmt::Display for Frames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Frames::Of(bytes) => write!(f, "{bytes} B"),
            Frames::Imix => f.write_str("IMIX"),
        }
    }
}

#[cfg(test)]
mod tests;
