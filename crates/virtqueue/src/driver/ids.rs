//! Which descriptors or buffer ids are free, and which are with the device in which order.

/// First in, first out, of numbers below its capacity. Ids go out in the order in which they came back, so a device
/// that works in order sees them in sequence.
pub(super) struct Fifo {
    entries: Box<[u16]>,
    head: u32,
    tail: u32,
}

impl Fifo {
    pub(super) fn empty(capacity: u16) -> Fifo {
        Fifo { entries: vec![0; usize::from(capacity).next_power_of_two()].into(), head: 0, tail: 0 }
    }

    /// All numbers below `capacity`.
    pub(super) fn full(capacity: u16) -> Fifo {
        let mut fifo = Fifo::empty(capacity);
        (0..capacity).for_each(|id| fifo.push(id));
        fifo
    }

    #[inline(always)]
    pub(super) fn len(&self) -> u16 {
        self.tail.wrapping_sub(self.head) as u16
    }

    #[inline(always)]
    fn slot(&mut self, at: u32) -> &mut u16 {
        let mask = self.entries.len() - 1;
        &mut self.entries[at as usize & mask]
    }

    #[inline(always)]
    pub(super) fn push(&mut self, id: u16) {
        *self.slot(self.tail) = id;
        self.tail = self.tail.wrapping_add(1);
    }

    #[inline(always)]
    pub(super) fn front(&mut self) -> Option<u16> {
        (self.len() > 0).then(|| *self.slot(self.head))
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<u16> {
        let id = self.front()?;
        self.head = self.head.wrapping_add(1);
        Some(id)
    }
}

/// The chains that a device has, and in which order it got them.
pub(super) struct Outstanding {
    in_order: bool,
    order: Fifo,
    /// Descriptors of the chain with this id; zero while the device does not have it.
    descriptors: Box<[u16]>,
    /// The id that ends the batch that the device has announced, if it is in one.
    batch: Option<(u16, u32)>,
}

/// What a used entry means.
pub(super) struct Done {
    pub(super) id: u16,
    pub(super) len: u32,
    pub(super) descriptors: u16,
}

impl Outstanding {
    pub(super) fn new(size: u16, in_order: bool) -> Outstanding {
        Outstanding { in_order, order: Fifo::empty(size), descriptors: vec![0; size.into()].into(), batch: None }
    }

    #[inline(always)]
    pub(super) fn add(&mut self, id: u16, descriptors: u16) {
        self.descriptors[usize::from(id)] = descriptors;
        if self.in_order {
            self.order.push(id);
        }
    }

    /// The next chain that is done, if the device said so; `entry` reads what it said. A device that works in order
    /// may name only the last chain of a batch (virtio 1.2 §2.7.9, §2.8.9). `None` if it named one it does not have.
    #[inline(always)]
    pub(super) fn next(&mut self, entry: impl FnOnce() -> (u32, u32)) -> Option<Done> {
        let (id, len) = match self.batch {
            Some(batch) => batch,
            None => {
                let (id, len) = entry();
                (u16::try_from(id).ok()?, len)
            }
        };
        if *self.descriptors.get(usize::from(id))? == 0 {
            return None;
        }
        let done = if self.in_order {
            let front = self.order.pop()?;
            self.batch = (front != id).then_some((id, len));
            Done { id: front, len: if front == id { len } else { 0 }, descriptors: 0 }
        } else {
            Done { id, len, descriptors: 0 }
        };
        let descriptors = std::mem::take(&mut self.descriptors[usize::from(done.id)]);
        Some(Done { descriptors, ..done })
    }

    /// The device announced a batch that is not used up yet.
    pub(super) fn in_batch(&self) -> bool {
        self.batch.is_some()
    }
}
