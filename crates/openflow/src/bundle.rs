//! Bundles (ONF extension 230 of OpenFlow 1.3): changes that a controller collects here, and that take effect together or not at all.

use crate::changes::PortMod;
use crate::connection::Role;
use crate::error::Error;
use crate::ofp::{bundle, message};
use crate::switch::{ConnectionId, Switch};
use crate::time::Millis;
use crate::wire::{self, Message, Put, Reader};
use std::collections::BTreeMap;

/// Bundles of a controller at most, and bytes of the messages in them.
const MAX_BUNDLES: usize = 16;
const MAX_BYTES: usize = 32 << 20;

/// The bundles of a controller, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Bundles {
    open: BTreeMap<u32, Bundle>,
    /// Bytes of all messages.
    bytes: usize,
}

#[derive(Debug)]
struct Bundle {
    flags: u16,
    /// Whether no more messages can be added.
    is_closed: bool,
    /// Whole messages, one behind the other.
    messages: Vec<u8>,
}

impl Bundles {
    fn open(&mut self, id: u32, flags: u16) -> Result<&mut Bundle, Error> {
        if self.open.len() == MAX_BUNDLES {
            return Err(Error::BundlesFull);
        }
        Ok(self.open.entry(id).or_insert(Bundle { flags, is_closed: false, messages: Vec::new() }))
    }

    /// Returns a bundle that was opened with these flags.
    fn opened(&mut self, id: u32, flags: u16) -> Result<&mut Bundle, Error> {
        let bundle = self.open.get_mut(&id).ok_or(Error::BundleUnknown)?;
        if bundle.flags == flags { Ok(bundle) } else { Err(Error::BundleFlags) }
    }

    /// Adds a message to a bundle, which is opened if there is none.
    fn add(&mut self, id: u32, flags: u16, message: &[u8]) -> Result<(), Error> {
        if self.bytes + message.len() > MAX_BYTES {
            return Err(Error::BundleTooMany);
        }
        let bundle = if self.open.contains_key(&id) { self.opened(id, flags)? } else { self.open(id, flags)? };
        if bundle.is_closed {
            return Err(Error::BundleClosed);
        }
        bundle.messages.put(message);
        self.bytes += message.len();
        Ok(())
    }

    fn remove(&mut self, id: u32) -> Option<Bundle> {
        let bundle = self.open.remove(&id)?;
        self.bytes -= bundle.messages.len();
        Some(bundle)
    }
}

impl Switch {
    /// Handles a message of the extension.
    pub(crate) fn handle_bundle(&mut self, id: ConnectionId, request: &Message, now: Millis) -> Result<(), Error> {
        let mut body = request.body();
        let mut header = || Some((body.u32()?, body.u32()?));
        let is_slave = self.connections.get(&id).is_some_and(|connection| connection.role == Role::Slave);
        match header().ok_or(Error::BadLen)? {
            (bundle::ONF, bundle::CONTROL | bundle::ADD) if is_slave => Err(Error::IsSlave),
            (bundle::ONF, bundle::CONTROL) => self.control_bundle(id, request.xid, body, now),
            (bundle::ONF, bundle::ADD) => self.add_to_bundle(id, request.xid, body),
            (bundle::ONF, _) => Err(Error::BadExperimenterType),
            _ => Err(Error::BadExperimenter),
        }
    }

    fn control_bundle(&mut self, id: ConnectionId, xid: u32, mut body: Reader, now: Millis) -> Result<(), Error> {
        let mut fixed = || Some((body.u32()?, body.u16()?, body.u16()?));
        let (number, kind, flags) = fixed().ok_or(Error::BadLen)?;
        if flags & !bundle::FLAGS != 0 {
            return Err(Error::BundleFlags);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let bundles = &mut connection.bundles;
        match kind {
            bundle::OPEN if bundles.open.contains_key(&number) => {
                // Its sender does not know what is in it.
                bundles.remove(number);
                return Err(Error::BundleExists);
            }
            bundle::OPEN => drop(bundles.open(number, flags)?),
            bundle::CLOSE => {
                let bundle = bundles.opened(number, flags)?;
                if std::mem::replace(&mut bundle.is_closed, true) {
                    return Err(Error::BundleClosed);
                }
            }
            bundle::COMMIT => {
                bundles.opened(number, flags)?;
                if let Some(bundle) = bundles.remove(number) {
                    self.commit(id, &bundle.messages, now)?;
                }
            }
            bundle::DISCARD => drop(bundles.remove(number).ok_or(Error::BundleUnknown)?),
            _ => return Err(Error::BundleType),
        }
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        wire::put_message(&mut connection.output, message::EXPERIMENTER, xid, |out| {
            out.u32(bundle::ONF);
            out.u32(bundle::CONTROL);
            out.u32(number);
            // Each answer has the number behind that of its request.
            out.u16(kind + 1);
            out.u16(flags);
        });
        Ok(())
    }

    fn add_to_bundle(&mut self, id: ConnectionId, xid: u32, mut body: Reader) -> Result<(), Error> {
        let mut fixed = || Some((body.u32()?, body.u16()?, body.u16()?));
        let (number, _, flags) = fixed().ok_or(Error::BadLen)?;
        if flags & !bundle::FLAGS != 0 {
            return Err(Error::BundleFlags);
        }
        let (len, added) = first(body.0).ok_or(Error::BundleLen)?;
        if added.xid != xid {
            return Err(Error::BundleXid);
        }
        if ![message::FLOW_MOD, message::GROUP_MOD, message::METER_MOD, message::PORT_MOD].contains(&added.kind) {
            return Err(Error::BundleUnsupported);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        connection.bundles.add(number, flags, &body.0[..len])
    }

    /// Makes the changes of a bundle. If one fails, the controller is told which, and nothing has changed.
    fn commit(&mut self, id: ConnectionId, mut messages: &[u8], now: Millis) -> Result<(), Error> {
        let before = self.tables.begin();
        let (mut removed, mut ports) = (Vec::new(), Vec::new());
        while let Some((len, change)) = first(messages) {
            let done = match change.kind {
                message::PORT_MOD => PortMod::read(change.body()).and_then(|change| {
                    self.check_port_change(&change)?;
                    ports.push(change);
                    Ok(())
                }),
                _ => self.change(&change, now).map(|flows| removed.extend(flows)),
            };
            if let Err(error) = done {
                self.tables.roll_back(before);
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.fail(&change, error);
                }
                return Err(Error::BundleFailed);
            }
            messages = &messages[len..];
        }
        self.tables.commit();
        self.flows_removed(removed, now);
        ports.iter().for_each(|change| self.change_port(change));
        Ok(())
    }
}

/// Returns the first message in `bytes`, and its length.
fn first(bytes: &[u8]) -> Option<(usize, Message<'_>)> {
    let len = usize::from(u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?));
    Some((len, Message::parse(bytes.get(..len)?)?))
}
