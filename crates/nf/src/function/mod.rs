//! What the sample network functions do with frames. Ports are for others: here are bytes.

mod responder;
mod router;
mod routes;

pub use responder::Responder;
pub use router::{Dropped, Interface, Router, Surroundings, Unreachable};
pub use routes::{BadNetwork, BadRoute, Network, Route};
