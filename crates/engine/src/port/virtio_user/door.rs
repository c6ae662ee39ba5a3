//! The listening socket of a port whose backend is not connected, if the switch is the side that listens.

use crate::port::Site;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use vhost_user::frontend::{FrontendError, FrontendOptions, Link, QueuePair};
use vhost_user::{Access, Listener, Mode};
use virtqueue::memory::Arena;

/// The door of a port; clones are the same one.
#[derive(Clone, Default)]
pub(super) struct Door(Arc<Mutex<Option<Arc<Listener>>>>);

impl Door {
    /// Returns the socket that backends can connect to now.
    pub(super) fn listener(&self) -> Option<Arc<Listener>> {
        self.0.lock().unwrap().clone()
    }

    /// Establishes a link with the next backend. No other backend can connect while that lasts.
    pub(super) fn establish(
        &self,
        site: &dyn Site,
        options: &FrontendOptions,
        arena: &mut Arena,
        stop: &AtomicBool,
    ) -> Result<(Link, Vec<QueuePair>), FrontendError> {
        let listener = match options.mode {
            Mode::Server => Some(Arc::new(Listener::bind(&options.socket, &Access::default())?)),
            Mode::Client => None,
        };
        self.0.lock().unwrap().clone_from(&listener);
        site.set_open(listener.is_some());
        let established = Link::establish_at(listener.as_deref(), options, arena, None, stop);
        *self.0.lock().unwrap() = None;
        site.set_open(false);
        established
    }
}
