//! Client of a running Millrace, at its control socket.
//!
//! A call is a value of [`api::request`]: its fields are the parameters, and its type knows the type of the result. `docs/api.md`
//! lists all calls. Ports, bridges and patches have the keys of the configuration file.
//!
//! ```no_run
//! use millrace_client::api::event::EventKind;
//! use millrace_client::api::request::{EventsFollow, PortAdd, PortDel};
//! use millrace_client::{Client, keys};
//! use std::time::Duration;
//!
//! let mut client = Client::connect("/run/millrace.sock")?;
//! client.call(&PortAdd {
//!     keys: keys([
//!         ("name", "web-0"),
//!         ("driver", "vhost-user"),
//!         ("socket", "/run/pods/web-0.sock"),
//!         ("bridge", "br0"),
//!     ]),
//! })?;
//! client.wait_until_open("web-0", Duration::from_secs(5))?;
//!
//! // A connection of its own: a call would wait while nobody reads the events.
//! for event in Client::connect("/run/millrace.sock")?.follow(&EventsFollow::default())? {
//!     match event?.kind {
//!         EventKind::GuestDisconnected { port, .. } if port == "web-0" => break,
//!         other => println!("{other:?}"),
//!     }
//! }
//! client.call(&PortDel { name: "web-0".into() })?;
//! # Ok::<(), millrace_client::ClientError>(())
//! ```
//!
//! A call that the switch refuses is an error with a [`Code`](api::code::Code), which stays the same from version to version.
#![forbid(unsafe_code)]

mod client;
mod error;
mod events;
mod lines;

pub use api;
pub use client::{Client, keys};
pub use error::ClientError;
pub use events::Events;
