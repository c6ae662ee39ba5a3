//! Messages about bundles (ONF extension 230), and the changes that a bundle makes when it is committed.

use super::changes::PortMod;
use super::connection::Role;
use super::switch::{ConnectionId, Switch};
use crate::tables::FlowMod;
use crate::time::Millis;
use crate::wire::ofp::{VERSION, bundle, message};
use crate::wire::{Error, Message, Put, Reader, put_message};

/// Maximum number of flows that the changes of a bundle look at, besides those that they name.
const MAX_VISITS: usize = 10_000_000;

impl Switch {
    /// Handles a message of the extension.
    pub(super) fn handle_bundle(&mut self, id: ConnectionId, request: &Message, now: Millis) -> Result<(), Error> {
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
            bundle::OPEN if bundles.contains(number) => {
                // Its sender does not know its content.
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
        put_message(&mut connection.output, message::EXPERIMENTER, xid, |out| {
            out.u32(bundle::ONF);
            out.u32(bundle::CONTROL);
            out.u32(number);
            // The number of each answer follows that of its request.
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
        if added.version != VERSION {
            return Err(Error::BadVersion);
        }
        if added.xid != xid {
            return Err(Error::BundleXid);
        }
        if ![message::FLOW_MOD, message::GROUP_MOD, message::METER_MOD, message::PORT_MOD].contains(&added.kind) {
            return Err(Error::BundleUnsupported);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        connection.bundles.add(number, flags, &body.0[..len])
    }

    /// Makes the changes of a bundle. If one fails, the controller is told which one, and nothing changes.
    fn commit(&mut self, id: ConnectionId, mut messages: &[u8], now: Millis) -> Result<(), Error> {
        let before = self.tables.begin();
        let (mut removed, mut ports, mut visited) = (Vec::new(), Vec::new(), 0);
        while let Some((len, change)) = first(messages) {
            visited += if change.kind != message::FLOW_MOD || FlowMod::visits_all(change.body()) {
                self.tables.flows()
            } else {
                0
            };
            let done = match change.kind {
                // Other controllers wait meanwhile.
                _ if visited > MAX_VISITS => Err(Error::BundleTooMany),
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
        self.flows_removed(&removed, now);
        ports.iter().for_each(|change| self.change_port(change));
        Ok(())
    }
}

/// Returns the first message in `bytes`, and its length.
fn first(bytes: &[u8]) -> Option<(usize, Message<'_>)> {
    let len = usize::from(u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?));
    Some((len, Message::parse(bytes.get(..len)?)?))
}
