//! Changes of flows and ports, and the notices that they cause.

use super::notices::PortReason;
use super::switch::{Event, Switch};
use crate::flows::{Removed, aggregation};
use crate::tables::{FlowMod, GroupMod, MeterMod};
use crate::time::Millis;
use crate::wire::ofp::{message, port_config};
use crate::wire::{Attached, Error, Message, Port, PortConfig, PortStats, Reader};
use packet::MacAddr;

/// The fields of a PORT_MOD (Section 7.3.4.3).
pub(super) struct PortMod {
    number: u32,
    mac: MacAddr,
    config: u32,
    mask: u32,
    advertised: u32,
}

impl PortMod {
    /// Reads the body of the message.
    pub fn read(mut body: Reader) -> Result<PortMod, Error> {
        let mut read = || {
            let number = body.u32()?;
            body.take(4)?;
            let mac = MacAddr(body.array()?);
            body.take(2)?;
            let (config, mask, advertised) = (body.u32()?, body.u32()?, body.u32()?);
            body.take(4)?;
            Some(PortMod { number, mac, config, mask, advertised })
        };
        read().filter(|_| body.is_empty()).ok_or(Error::BadLen)
    }
}

impl Switch {
    /// Applies a FLOW_MOD that another switch relayed ([`crate::aggregation::relayed`]).
    pub fn apply_relayed(&mut self, message: &[u8], now: Millis) -> Result<(), Error> {
        let message = Message::parse(message).ok_or(Error::BadLen)?;
        let change = FlowMod::read(message.body())?;
        if change.table != aggregation::TABLE {
            return Err(Error::FlowNotAllowed);
        }
        let removed = change.apply(&mut self.tables, &self.ports, now)?;
        self.flows_removed(&removed, now);
        Ok(())
    }

    /// Removes expired flows. Call it about once a second.
    pub fn expire(&mut self, now: Millis) {
        let removed = self.tables.expire(now);
        self.flows_removed(&removed, now);
    }

    /// Applies a FLOW_MOD, a GROUP_MOD or a METER_MOD. Returns the flows that are removed.
    pub(crate) fn change(&mut self, change: &Message, now: Millis) -> Result<Vec<Removed>, Error> {
        let (body, tables, ports) = (change.body(), &mut self.tables, &self.ports);
        match change.kind {
            message::FLOW_MOD => FlowMod::read(body)?.apply(tables, ports, now),
            message::GROUP_MOD => tables.change_groups(GroupMod::read(body)?, ports, now),
            message::METER_MOD => tables.change_meters(MeterMod::read(body)?, now),
            _ => Err(Error::BadType),
        }
    }

    /// Checks that a PORT_MOD can be applied.
    pub(super) fn check_port_change(&self, change: &PortMod) -> Result<(), Error> {
        let attached = self.ports.get(&change.number).ok_or(Error::PortModPort)?;
        if !attached.port.configurable {
            return Err(Error::PortModNotAllowed);
        }
        if change.mac != attached.port.mac {
            return Err(Error::PortModAddress);
        }
        if (change.config | change.mask) & !port_config::ALL != 0 {
            return Err(Error::PortModConfig);
        }
        if change.advertised != 0 {
            return Err(Error::PortModAdvertised);
        }
        Ok(())
    }

    /// Applies a PORT_MOD that [`Self::check_port_change`] has accepted.
    pub(super) fn change_port(&mut self, change: &PortMod) {
        let Some(attached) = self.ports.get_mut(&change.number) else { return };
        let config = PortConfig(attached.config.0 & !change.mask | change.config & change.mask);
        if config != attached.config {
            attached.config = config;
            let port = attached.port.clone();
            self.events.push_back(Event::PortConfig { number: change.number, config });
            self.port_status(PortReason::Modify, &port, config);
        }
    }

    /// Adds or changes a port.
    pub fn set_port(&mut self, port: Port, now: Millis) {
        let (reason, config) = match self.ports.get_mut(&port.number) {
            Some(before) if before.port == port => return,
            Some(before) => {
                before.port = port.clone();
                (PortReason::Modify, before.config)
            }
            None => {
                let config = PortConfig::default();
                let attached = Attached { port: port.clone(), config, stats: PortStats::default(), since: now };
                self.ports.insert(port.number, attached);
                (PortReason::Add, config)
            }
        };
        self.port_status(reason, &port, config);
    }

    /// Removes a port.
    pub fn remove_port(&mut self, number: u32) {
        if let Some(gone) = self.ports.remove(&number) {
            self.port_status(PortReason::Delete, &gone.port, gone.config);
            if gone.config != PortConfig::default() {
                // A port that comes back has no restrictions.
                self.events.push_back(Event::PortConfig { number, config: PortConfig::default() });
            }
        }
    }
}
