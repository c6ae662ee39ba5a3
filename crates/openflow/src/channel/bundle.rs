//! Bundles (ONF extension 230 of OpenFlow 1.3): changes that a controller collects, to be made together.

use crate::wire::{Error, Put};
use std::collections::BTreeMap;

/// Maximum number of a controller's bundles, and of bytes of the messages in them.
const MAX_BUNDLES: usize = 16;
const MAX_BYTES: usize = 32 << 20;

/// The bundles of a controller, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Bundles {
    bundles: BTreeMap<u32, Bundle>,
    /// Bytes of all messages.
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct Bundle {
    flags: u16,
    /// Whether no more messages can be added.
    pub is_closed: bool,
    /// Whole messages, one behind the other.
    pub messages: Vec<u8>,
}

impl Bundles {
    /// Reports whether there is such a bundle.
    pub fn contains(&self, id: u32) -> bool {
        self.bundles.contains_key(&id)
    }

    /// Opens a bundle.
    pub fn open(&mut self, id: u32, flags: u16) -> Result<&mut Bundle, Error> {
        if self.bundles.len() == MAX_BUNDLES {
            return Err(Error::BundlesFull);
        }
        Ok(self.bundles.entry(id).or_insert(Bundle { flags, is_closed: false, messages: Vec::new() }))
    }

    /// Returns a bundle that was opened with these flags.
    pub fn opened(&mut self, id: u32, flags: u16) -> Result<&mut Bundle, Error> {
        let bundle = self.bundles.get_mut(&id).ok_or(Error::BundleUnknown)?;
        if bundle.flags == flags { Ok(bundle) } else { Err(Error::BundleFlags) }
    }

    /// Adds a message to a bundle, which is opened if there is none.
    pub fn add(&mut self, id: u32, flags: u16, message: &[u8]) -> Result<(), Error> {
        if self.bytes + message.len() > MAX_BYTES {
            return Err(Error::BundleTooMany);
        }
        let bundle = if self.contains(id) { self.opened(id, flags)? } else { self.open(id, flags)? };
        if bundle.is_closed {
            return Err(Error::BundleClosed);
        }
        bundle.messages.put(message);
        self.bytes += message.len();
        Ok(())
    }

    /// Ends a bundle.
    pub fn remove(&mut self, id: u32) -> Option<Bundle> {
        let bundle = self.bundles.remove(&id)?;
        self.bytes -= bundle.messages.len();
        Some(bundle)
    }
}
