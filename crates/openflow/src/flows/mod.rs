//! Flows as controllers write them: a [`Match`], and [`Instructions`] with [`Action`]s. They are read from messages, checked, and shown
//! as text.

mod action;
pub mod aggregation;
mod flow;
mod instruction;
mod matching;
mod text;

pub use action::{Action, SetKey};
pub(crate) use action::{Contains, Known, Scope, in_set_order, read_list};
pub use aggregation::ServiceChain;
pub(crate) use flow::{Filter, Removed};
pub use flow::{Flow, Removal};
pub use instruction::Instructions;
pub use matching::Match;
