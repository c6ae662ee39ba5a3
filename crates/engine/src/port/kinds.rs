//! The kinds of ports: each is a sibling folder, and one line below.

use super::keys::Section;
use super::kind::{Capabilities, Kind, KindKeys, Opened, PathUse, Queues, Registration};
use super::{MAX_QUEUES, Site};
use super::{af_packet, af_xdp, dpdk, generator, loopback, pcap, sink, tap, vhost_user, virtio_user};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident = $folder:ident $name:literal,)*) => {
        /// Kind of a port, and its settings.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Driver {
            $($(#[doc = $doc])+ $variant($folder::Settings),)*
        }

        /// All kinds, by their names in the configuration.
        pub const KINDS: &[(&str, Registration)] = &[$(($name, $folder::KIND),)*];

        /// The keys of a port of one kind, under the name of the kind.
        #[derive(Clone, Debug, Deserialize, Serialize)]
        pub enum DriverKeys {
            $(#[doc = concat!("Keys of kind `", stringify!($folder), "`.")] #[serde(rename = $name)] $variant($folder::Keys),)*
        }

        $(impl From<$folder::Keys> for DriverKeys {
            fn from(keys: $folder::Keys) -> Self {
                Self::$variant(keys)
            }
        })*

        impl DriverKeys {
            /// Returns the name of the kind in the configuration.
            pub fn name(&self) -> &'static str {
                match self {
                    $(DriverKeys::$variant(_) => $name,)*
                }
            }

            /// Checks the keys. A wrong value is reported and replaced.
            pub fn build(&self, section: &mut Section<'_>) -> Driver {
                match self {
                    $(DriverKeys::$variant(keys) => Driver::$variant(keys.build(section)),)*
                }
            }

            /// Returns the schema of the keys of each kind, in the order of [`KINDS`].
            pub fn schemas(generator: &mut SchemaGenerator) -> Vec<Schema> {
                vec![$($folder::Keys::json_schema(generator),)*]
            }
        }

        impl Driver {
            /// Returns its name in the configuration.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Driver::$variant(_) => $name,)*
                }
            }

            /// Returns the capabilities of ports of its kind.
            pub fn capabilities(&self) -> Capabilities {
                match self {
                    $(Driver::$variant(_) => $folder::KIND.capabilities,)*
                }
            }

            fn kind(&self) -> &dyn Kind {
                match self {
                    $(Driver::$variant(settings) => settings,)*
                }
            }
        }
    };
}

kinds! {
    /// A guest's virtio-net device: the switch is the device.
    VhostUser = vhost_user "vhost-user",
    /// Another program's vhost-user backend: the switch is the driver.
    VirtioUser = virtio_user "virtio-user",
    /// A kernel tap device.
    Tap = tap "tap",
    /// A kernel interface, by AF_PACKET rings.
    AfPacket = af_packet "af_packet",
    /// A kernel interface, by AF_XDP sockets.
    AfXdp = af_xdp "af_xdp",
    /// A device of a DPDK driver.
    Dpdk = dpdk "dpdk",
    /// Frames read from a file, frames written to a file.
    Pcap = pcap "pcap",
    /// Generates frames; drops frames sent to it.
    Generator = generator "generator",
    /// Drops frames sent to it.
    Sink = sink "sink",
    /// Returns frames sent to it.
    Loopback = loopback "loopback",
}

impl Driver {
    /// Returns the maximum number of queue pairs.
    pub fn queues(&self) -> usize {
        match self.kind().queues() {
            Queues::Fixed(queues) => queues.into(),
            Queues::Asked => MAX_QUEUES.into(),
        }
    }

    /// Reports whether the guest chooses the number of queue pairs.
    pub fn is_asked(&self) -> bool {
        self.kind().queues() == Queues::Asked
    }

    /// Returns the files and sockets that the port needs, each with its use.
    pub fn paths(&self) -> Vec<(PathUse, &Path)> {
        self.kind().paths()
    }

    /// Returns the interface that others have to create before the port can be up.
    pub fn needs_interface(&self) -> Option<&str> {
        self.kind().needs_interface()
    }

    /// Checks that the switch can steer frames by MAC address before they are in a buffer. An error continues "port x ...".
    pub fn steers(&self) -> Result<(), &'static str> {
        self.kind().steers()
    }

    /// Checks that pages of the guest's memory stay what they are, so that others than the switch can fill them. An error continues
    /// "port x ...".
    pub fn keeps_memory(&self) -> Result<(), &'static str> {
        self.kind().keeps_memory()
    }

    /// Takes the resources that the switch cannot take any more once it is confined.
    pub fn claim(&self) -> Result<(), String> {
        self.kind().claim()
    }

    /// Opens the port, see [`Kind::open`].
    pub(crate) fn open(&self, site: &Arc<dyn Site>) -> Result<Opened, String> {
        self.kind().open(site)
    }
}

#[cfg(test)]
mod tests;
