//! Manual pages and completions for shells, made of the definition of a command line.

mod completions;
mod page;
mod program;

pub use clap_complete::Shell;
pub use completions::completions;
pub use page::{shown, write};
pub use program::{command, parse};
