//! How far a reload looks.

/// The parts that a reload looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::switch) enum Extent {
    /// All: it also mends what others have changed, and tries again what failed.
    All,
    /// Those that the specifications have differently.
    Differences,
}
