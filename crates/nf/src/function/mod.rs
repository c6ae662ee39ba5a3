//! The sample network functions. They work on the bytes of frames, without ports.

mod neighbours;
mod responder;
mod router;
mod routes;
mod routing;
mod shared_router;

pub use responder::Responder;
pub use router::{Router, Surroundings};
pub use routes::{BadNetwork, BadRoute, Network, Route};
pub use routing::{Dropped, Interface, Unreachable};
pub use shared_router::{Frame, RouterWorker, SharedRouter};
