//! The number of batches that may be outstanding: as few as keep the workers busy, so that the batch that is filled next was
//! used a short while ago, and is still in a cache.

/// Batches that wait for workers, besides those that they process.
const WAITING: usize = 2;

/// How many batches may be published and not released.
///
/// As many as there are workers, and two. If the batch at the front takes so long that the workers complete all others meanwhile,
/// it becomes twice as many, up to all that there are; each release that finds them at work takes one off again.
pub(crate) struct Depth {
    least: usize,
    most: usize,
    now: usize,
    /// Since batches were last released: whether one more was refused, and whether the parent then had none to release.
    is_reached: bool,
    has_waited: bool,
}

impl Depth {
    pub(crate) fn new(workers: usize, room: usize) -> Self {
        let least = (workers + WAITING).min(room);
        Depth { least, most: room, now: least, is_reached: false, has_waited: false }
    }

    /// Reports whether one more batch may be published if so many are outstanding.
    #[inline(always)]
    pub(crate) fn allows(&mut self, outstanding: usize) -> bool {
        let has_room = outstanding < self.now;
        if !has_room {
            self.is_reached = true;
        }
        has_room
    }

    /// Takes note of a release of `released` batches, which left so many outstanding.
    #[inline(always)]
    pub(crate) fn released(&mut self, released: usize, outstanding: usize) {
        if self.is_reached || self.now > self.least {
            self.adapt(released, outstanding);
        }
    }

    fn adapt(&mut self, released: usize, outstanding: usize) {
        if released == 0 {
            self.has_waited |= self.is_reached;
            return;
        }
        self.now = match self.has_waited && outstanding == 0 {
            true => (2 * self.now).min(self.most),
            false => (self.now - 1).max(self.least),
        };
        (self.is_reached, self.has_waited) = (false, false);
    }
}
