//! AF_PACKET ports: interfaces by packet rings.

use super::{PacketReceive, PacketTransmit, Settings};
use crate::port::Site;
use crate::port::interface::{Interface, Session};
use netdev::{Link, Links, PacketRx, PacketTx, RxConfig, RxMonitor, TxConfig, TxState};
use std::sync::Arc;
use std::time::Duration;

/// Interval at which the kernel's losses are counted.
const CHECK: Duration = Duration::from_millis(50);

impl Interface for Settings {
    fn name(&self) -> Option<&str> {
        Some(&self.interface)
    }

    fn open(&self, links: &Links, site: &Arc<dyn Site>) -> Result<Box<dyn Session>, String> {
        let text = |error: netdev::Error| error.to_string();
        let link = links.get(&self.interface).and_then(|link| links.bring_up(&link)).map_err(text)?;
        let rings = PacketRx::open(&link, self.queues.into(), &RxConfig::default()).map_err(text)?;
        let monitors = rings.iter().map(PacketRx::monitor).collect();
        let both = |ring| Ok(Some((ring, PacketTx::open(&link, &TxConfig::default())?)));
        let queues: Vec<_> = rings.into_iter().map(both).collect::<Result<_, _>>().map_err(text)?;
        let states = queues.iter().flatten().map(|(_, transmit)| transmit.state()).collect();
        Ok(Box::new(Open { site: site.clone(), link, queues, monitors, states }))
    }
}

/// An open AF_PACKET port.
struct Open {
    site: Arc<dyn Site>,
    link: Link,
    /// `None` once workers have them.
    queues: Vec<Option<(PacketRx, PacketTx)>>,
    monitors: Vec<RxMonitor>,
    states: Vec<Arc<TxState>>,
}

impl Session for Open {
    fn link(&self) -> &Link {
        &self.link
    }

    fn attach(&mut self, site: &Arc<dyn Site>, queue: usize) -> Result<(), String> {
        let (receive, transmit) = self.queues.get_mut(queue).and_then(Option::take).ok_or("it has too few rings")?;
        let (receive, transmit) = (PacketReceive::new(receive, site.drops().clone()), PacketTransmit::new(transmit));
        site.attach(queue, Box::new(receive), Box::new(transmit)).map_err(|why| why.to_string())
    }

    fn changed(&mut self, link: &Link) -> Result<(), String> {
        self.states.iter().for_each(|state| state.set(link));
        Ok(())
    }

    fn interval(&self) -> Option<Duration> {
        Some(CHECK)
    }

    fn check(&mut self) -> Result<(), String> {
        self.monitors.iter().for_each(|monitor| self.site.count_losses(monitor));
        Ok(())
    }

    fn detaching(&mut self) {
        self.monitors.iter().for_each(|monitor| self.site.count_losses(monitor));
    }

    fn describe(&self, link: &Link) -> String {
        format!("interface {}, copied by the kernel, MTU {}", link.name, link.mtu)
    }
}
