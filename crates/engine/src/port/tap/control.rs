//! Tap ports: opening one creates its interface.

use super::{Settings, TapReceive, TapTransmit};
use crate::port::Site;
use crate::port::interface::{Interface, Session};
use crate::port::offloads::{Chosen, KERNEL};
use netdev::{Link, Links, Tap, TapQueue};
use std::sync::Arc;

/// Name of the interface where the configuration names none.
const TEMPLATE: &str = "millrace%d";

impl Interface for Settings {
    fn name(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    fn is_foreign(&self) -> bool {
        false
    }

    fn open(&self, links: &Links, site: &Arc<dyn Site>) -> Result<Box<dyn Session>, String> {
        let text = |error: netdev::Error| error.to_string();
        let name = self.interface.as_deref().unwrap_or(TEMPLATE);
        let chosen = Chosen::new(&**site, self.offloads);
        let queues = Tap::open(name, self.queues.into(), chosen.offloads).map_err(text)?;
        site.set_offloads(chosen.limited(queues[0].offloads(), KERNEL).stats());
        let mut link = links.get(queues[0].name()).map_err(text)?;
        if let Some(mtu) = self.mtu {
            link = links.set_mtu(&link, mtu as usize).map_err(text)?;
        }
        let link = links.bring_up(&link).map_err(text)?;
        let queues: Vec<_> = queues.into_iter().map(Arc::new).collect();
        Ok(Box::new(Open { link, device: queues[0].clone(), queues: queues.into_iter().map(Some).collect() }))
    }
}

/// An open tap.
struct Open {
    link: Link,
    /// One of the queues, to check the device.
    device: Arc<TapQueue>,
    /// `None` once workers have them.
    queues: Vec<Option<Arc<TapQueue>>>,
}

impl Session for Open {
    fn link(&self) -> &Link {
        &self.link
    }

    fn attach(&mut self, site: &Arc<dyn Site>, queue: usize) -> Result<(), String> {
        let tap = self.queues.get_mut(queue).and_then(Option::take).ok_or("the tap has too few queues")?;
        let (receive, transmit) = (TapReceive::new(tap.clone(), site.drops().clone()), TapTransmit::new(tap));
        site.attach(queue, Box::new(receive), Box::new(transmit)).map_err(|why| why.to_string())
    }

    /// The device belongs to the switch, whatever others call it and wherever they move it.
    fn look(&mut self, links: &Links) -> Result<Option<Link>, String> {
        match self.device.look(links, &self.link) {
            Ok(link) => {
                if link.place() != self.link.place() {
                    tracing::info!("{} is {} now", self.link.place(), link.place());
                }
                self.link = link;
                Ok(Some(self.link.clone()))
            }
            Err(error @ netdev::Error::Missing { .. }) => Err(error.to_string()),
            Err(_) => Ok(None),
        }
    }

    fn describe(&self, link: &Link) -> String {
        match link.is_elsewhere {
            true => link.place(),
            false => format!("{}, MTU {}", link.place(), link.mtu),
        }
    }
}
