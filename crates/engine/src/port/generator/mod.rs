//! Generator ports: make frames, and drop those sent to them.

mod rx;
mod spec;

pub use rx::Generator;
pub use spec::{KIND, Keys, Settings};
