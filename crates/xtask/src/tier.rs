//! The two lists of steps.

/// A list of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// All that anybody runs after a change.
    Test,
    /// Checks that a maintainer and continuous integration run besides.
    Verify,
}

impl Tier {
    /// Returns its name, which is that of its command.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Test => "test",
            Tier::Verify => "verify",
        }
    }

    /// Returns the whole command.
    pub fn command(self) -> &'static str {
        match self {
            Tier::Test => "cargo xtask test",
            Tier::Verify => "cargo xtask verify",
        }
    }
}
