//! Pages of a guest's memory that do not exist.

/// Treatment of pages that do not exist when a guest shares its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holes {
    /// They are allocated then, and charged to this process: up to half of the free memory. A page that vanishes later ends
    /// the session.
    #[default]
    Fill,
    /// The guest is refused. A page that vanishes later ends the session.
    Refuse,
    /// They are allocated when a frame first needs them, however many they are.
    Allow,
}
