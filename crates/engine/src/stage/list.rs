//! The stages of one queue, in their order.

/// A stage of a queue.
pub(crate) struct Placed<S: ?Sized> {
    /// Its place in the order.
    place: usize,
    /// Its slot in a [`super::stopwatch::Stopwatch`].
    pub(super) slot: usize,
    pub(super) stage: Box<S>,
}

/// The stages that a queue has. A boxed slice, so that `None` around it is a null pointer, which a worker tests quickly.
pub(crate) struct List<S: ?Sized>(Box<[Placed<S>]>);

impl<S: ?Sized> List<S> {
    pub(super) fn new() -> List<S> {
        List(Box::default())
    }

    /// Puts `stage` in its place, instead of the one that was there.
    pub(super) fn put(&mut self, place: usize, slot: usize, stage: Option<Box<S>>) {
        let mut stages = std::mem::take(&mut self.0).into_vec();
        let at = stages.partition_point(|other| other.place < place);
        let known = stages[at..].first().is_some_and(|other| other.place == place);
        let stage = stage.map(|stage| Placed { place, slot, stage });
        drop(stages.splice(at..at + usize::from(known), stage));
        self.0 = stages.into();
    }

    #[inline(always)]
    pub(super) fn as_slice(&self) -> &[Placed<S>] {
        &self.0
    }

    #[inline(always)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &S> {
        self.0.iter().map(|placed| &*placed.stage)
    }
}

impl<S: ?Sized> FromIterator<Box<S>> for List<S> {
    /// Puts stages in any order.
    fn from_iter<I: IntoIterator<Item = Box<S>>>(stages: I) -> List<S> {
        let placed = |(place, stage)| Placed { place, slot: super::stopwatch::STEPS.len() + place, stage };
        List(stages.into_iter().enumerate().map(placed).collect())
    }
}
