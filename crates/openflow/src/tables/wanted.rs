//! The groups or meters that a request is about.

/// One of them, or all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    One(u32),
    All,
}

impl Wanted {
    /// Returns the ones that a number on the wire stands for; `all` stands for all.
    pub fn of(number: u32, all: u32) -> Wanted {
        if number == all { Wanted::All } else { Wanted::One(number) }
    }

    /// Reports whether the one of this number is among them.
    pub fn has(self, id: u32) -> bool {
        self == Wanted::All || self == Wanted::One(id)
    }
}
