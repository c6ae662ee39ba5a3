//! The messages that segments may still be added to: of several connections, so that segments which alternate are merged, too.

/// Most messages at a time. One more closes the oldest.
const MOST: usize = 8;

/// Some messages, the oldest first.
#[derive(Default)]
pub(super) struct Open {
    messages: [u8; MOST],
    count: usize,
}

impl Open {
    /// Returns the place of the message for which `is` returns true.
    #[inline]
    pub(super) fn find(&self, is: impl Fn(usize) -> bool) -> Option<usize> {
        self.messages[..self.count].iter().position(|message| is(usize::from(*message)))
    }

    /// Returns the message at this place.
    pub(super) fn at(&self, place: usize) -> usize {
        self.messages[place].into()
    }

    /// Adds a message.
    pub(super) fn add(&mut self, message: usize) {
        if self.count == MOST {
            self.close(0);
        }
        self.messages[self.count] = message as u8;
        self.count += 1;
    }

    /// Removes the message at this place.
    pub(super) fn close(&mut self, place: usize) {
        self.messages.copy_within(place + 1..self.count, place);
        self.count -= 1;
    }

    /// Removes all.
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_closed_for_one_more() {
        let mut open = Open::default();
        (0..MOST).for_each(|message| open.add(message));
        open.close(2);
        assert_eq!((open.find(|message| message == 2), open.find(|message| message == 3)), (None, Some(2)));
        open.add(20);
        open.add(21);
        let known: Vec<_> = (0..30).filter(|&message| open.find(|other| other == message).is_some()).collect();
        assert_eq!(known, [1, 3, 4, 5, 6, 7, 20, 21]);
        assert_eq!(open.at(7), 21);
        open.clear();
        assert_eq!(open.find(|_| true), None);
    }
}
