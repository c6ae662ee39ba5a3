//! Scenarios: the tests that a file asks for.

mod file;
mod tuple;

pub use file::{Scenario, ScenarioError, Test, Timing};
pub use tuple::{Dimension, Location, OfferedRate, Point};
