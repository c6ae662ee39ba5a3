//! The sample network functions. They work on the bytes of frames, without ports.

mod responder;
mod router;
mod routes;

pub use responder::Responder;
pub use router::{Dropped, Interface, Router, Surroundings, Unreachable};
pub use routes::{BadNetwork, BadRoute, Network, Route};
