//! Changes of flows and ports, and the notices that they cause.

use crate::aggregation;
use crate::error::Error;
use crate::flow_mod::FlowMod;
use crate::groups::GroupMod;
use crate::meters::MeterMod;
use crate::ofp::{TABLE_ALL, port_config};
use crate::port::{Attached, Port, PortConfig, PortStats};
use crate::switch::{Event, Switch};
use crate::time::Millis;
use crate::wire::Message;
use packet::MacAddr;

/// The fields of a PORT_MOD.
pub(crate) struct PortMod {
    pub number: u32,
    pub mac: MacAddr,
    pub config: u32,
    pub mask: u32,
    pub advertised: u32,
}

impl Switch {
    /// Applies a FLOW_MOD that another switch relayed ([`crate::aggregation::relayed`]).
    pub fn apply_relayed(&mut self, message: &[u8], now: Millis) -> Result<(), Error> {
        let message = Message::parse(message).ok_or(Error::BadLen)?;
        let change = FlowMod::read(message.body())?;
        if change.table != aggregation::TABLE {
            return Err(Error::FlowNotAllowed);
        }
        self.change(&change, now)
    }

    /// Removes expired flows. To be called about once a second.
    pub fn expire(&mut self, now: Millis) {
        let mut removed = Vec::new();
        let (tables, shared) = self.tables.meant_mut(TABLE_ALL);
        for table in tables {
            removed.extend(table.expire(shared, now).into_iter().map(|(flow, reason)| (table.number(), flow, reason)));
        }
        for (id, flow, reason) in removed {
            self.flow_removed(id, &flow, reason, now);
        }
    }

    /// Applies a GROUP_MOD. Flows that use a group end with it.
    pub(crate) fn change_groups(&mut self, change: GroupMod<'_>, now: Millis) -> Result<(), Error> {
        for (id, flow, reason) in self.tables.change_groups(change, &self.ports, now)? {
            self.flow_removed(id, &flow, reason, now);
        }
        Ok(())
    }

    /// Applies a METER_MOD. Flows that use a meter end with it.
    pub(crate) fn change_meters(&mut self, change: MeterMod<'_>, now: Millis) -> Result<(), Error> {
        for (id, flow, reason) in self.tables.change_meters(change, now)? {
            self.flow_removed(id, &flow, reason, now);
        }
        Ok(())
    }

    pub(crate) fn change(&mut self, change: &FlowMod, now: Millis) -> Result<(), Error> {
        for (id, flow, reason) in change.apply(&mut self.tables, &self.ports, now)? {
            self.flow_removed(id, &flow, reason, now);
        }
        Ok(())
    }

    /// Applies a PORT_MOD (Section 7.3.4.3).
    pub(crate) fn change_port(&mut self, change: &PortMod) -> Result<(), Error> {
        let attached = self.ports.get_mut(&change.number).ok_or(Error::PortModPort)?;
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
        let config = PortConfig(attached.config.0 & !change.mask | change.config & change.mask);
        if config != attached.config {
            attached.config = config;
            let port = attached.port.clone();
            self.events.push_back(Event::PortConfig { number: change.number, config });
            self.port_status(2, &port, config);
        }
        Ok(())
    }

    /// Adds or changes a port.
    pub fn set_port(&mut self, port: Port, now: Millis) {
        let (reason, config) = match self.ports.get_mut(&port.number) {
            Some(before) if before.port == port => return,
            Some(before) => {
                before.port = port.clone();
                (2, before.config)
            }
            None => {
                let config = PortConfig::default();
                let attached = Attached { port: port.clone(), config, stats: PortStats::default(), since: now };
                self.ports.insert(port.number, attached);
                (0, config)
            }
        };
        self.port_status(reason, &port, config);
    }

    /// Removes a port.
    pub fn remove_port(&mut self, number: u32) {
        if let Some(gone) = self.ports.remove(&number) {
            self.port_status(1, &gone.port, gone.config);
            if gone.config != PortConfig::default() {
                // A port that comes back is as at first.
                self.events.push_back(Event::PortConfig { number, config: PortConfig::default() });
            }
        }
    }
}
