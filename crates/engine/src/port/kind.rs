//! A kind of port: the trait that each sibling folder implements.

use super::Site;
use super::keys::Section;
use std::path::Path;
use std::sync::Arc;
use vhost_user::Listener;

/// A kind of port, as the table in [`super::kinds`] lists it.
#[derive(Debug)]
pub struct Registration {
    /// The peer of such a port, for the documentation.
    pub about: &'static str,
    /// Abilities of all ports of this kind.
    pub capabilities: Capabilities,
    /// Keys of other kinds that users expect here, each with the reason why there is none.
    pub lacks: &'static [(&'static str, &'static str)],
}

/// The keys of a kind in a configuration file.
pub(crate) trait KindKeys {
    /// The settings that the keys give.
    type Settings;

    /// Checks the keys. A wrong value is reported and replaced.
    fn build(&self, section: &mut Section<'_>) -> Self::Settings;
}

/// The settings of a port, which say of which kind it is.
pub(crate) trait Kind {
    /// Returns the number of queue pairs.
    fn queues(&self) -> Queues {
        Queues::Fixed(1)
    }

    /// Returns the files and sockets that the port needs, each with its use.
    fn paths(&self) -> Vec<(PathUse, &Path)> {
        Vec::new()
    }

    /// Returns the interface that others have to create before the port can be up.
    fn needs_interface(&self) -> Option<&str> {
        None
    }

    /// Checks that the switch can steer frames by MAC address before they are in a buffer. An error continues "port x ...".
    fn steers(&self) -> Result<(), &'static str> {
        Err("is of a driver whose frames the switch cannot steer")
    }

    /// Checks that pages of the guest's memory stay what they are, so that others than the switch can fill them. An error continues
    /// "port x ...".
    fn keeps_memory(&self) -> Result<(), &'static str> {
        Ok(())
    }

    /// Takes the resources that the switch cannot take any more once it is confined.
    fn claim(&self) -> Result<(), String> {
        Ok(())
    }

    /// Opens the port and gives its queues to `site`, now or when a peer connects. An error says why the switch has to try again.
    fn open(&self, site: &Arc<dyn Site>) -> Result<Opened, String>;
}

/// Number of queue pairs of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// This many.
    Fixed(u16),
    /// As many as the peer wants, up to [`super::MAX_QUEUES`].
    Asked,
}

/// Abilities of a kind of port. The rest of the switch asks for these, never for a kind. A test of [`super::kinds`] opens a port of each
/// kind, and compares its halves with `lends`, `has_guest` and `shares`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Its queues can receive into a guest's buffers, and send from a guest's memory: the end `from` of a mapping.
    pub lends: bool,
    /// A program behind it fills these buffers, so it gets access to the guest's memory.
    pub exposes_memory: bool,
    /// It has a guest that posts buffers: the end `to` of a mapping.
    pub has_guest: bool,
    /// It may face a network, so that a tunnel can end there.
    pub faces_network: bool,
    /// A guest or host behind it can read the frames that it gets.
    pub has_peer: bool,
    /// Several workers can process the frames of one of its queues.
    pub shares: bool,
}

impl Capabilities {
    /// No abilities.
    pub const NONE: Capabilities = Capabilities {
        lends: false,
        exposes_memory: false,
        has_guest: false,
        faces_network: false,
        has_peer: false,
        shares: false,
    };
}

/// Use of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathUse {
    /// The switch reads this file.
    Read,
    /// The switch creates this file.
    Write,
    /// The switch listens on this socket.
    Listen,
}

/// An open port.
pub(crate) struct Opened {
    /// Owner of the port's resources: dropping it closes the port.
    pub(crate) control: Box<dyn PortControl>,
    /// Reason why the port is down at first, if it is.
    pub(crate) trouble: Option<String>,
}

impl Opened {
    /// Returns a port whose halves own all resources.
    pub(crate) fn with_queues() -> Opened {
        Opened { control: Box::new(()), trouble: None }
    }

    /// Returns a port that `control` owns.
    pub(crate) fn by(control: impl PortControl + 'static) -> Opened {
        Opened { control: Box::new(control), trouble: None }
    }
}

/// Owner of an open port's resources; dropping it closes the port.
pub(crate) trait PortControl: Send {
    /// Reports whether queues that a worker keeps come back with the peer's next session. Otherwise the switch opens the
    /// port again.
    fn outlives_sessions(&self) -> bool {
        false
    }

    /// Returns the socket that the port listens on, if it does so at present.
    fn listener(&self) -> Option<Arc<Listener>> {
        None
    }
}

impl PortControl for () {}
