//! Scenarios: the tests that a file asks for.

mod file;
mod machines;
mod tuple;

pub use file::{Scenario, ScenarioError, Test, Timing};
pub use machines::{Containers, OtherMachine};
pub use tuple::{Dimension, Location, OfferedRate, Point};
