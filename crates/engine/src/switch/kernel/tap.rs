//! Tap ports: opening one creates its interface.

use super::{Kind, Session};
use crate::port::kernel::{TapReceive, TapTransmit};
use crate::switch::fabric::{ReceiveHalf, TransmitHalf};
use crate::switch::shared::PortShared;
use netdev::{Link, Links, Tap, TapQueue};
use std::sync::Arc;

/// Name of the interface where the configuration names none.
const TEMPLATE: &str = "millrace%d";

/// Options of a tap port.
pub(in crate::switch) struct Taps {
    pub(in crate::switch) interface: Option<String>,
    pub(in crate::switch) mtu: Option<u32>,
    pub(in crate::switch) queues: u16,
}

impl Kind for Taps {
    fn interface(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    fn needs_interface(&self) -> bool {
        false
    }

    fn open(&self, links: &Links, _: &Arc<PortShared>) -> Result<Box<dyn Session>, String> {
        let text = |error: netdev::Error| error.to_string();
        let name = self.interface.as_deref().unwrap_or(TEMPLATE);
        let queues = Tap::open(name, self.queues.into()).map_err(text)?;
        let mut link = links.get(queues[0].name()).map_err(text)?;
        if let Some(mtu) = self.mtu {
            link = links.set_mtu(&link, mtu as usize).map_err(text)?;
        }
        let link = links.bring_up(&link).map_err(text)?;
        Ok(Box::new(Open { link, queues: queues.into_iter().map(Arc::new).map(Some).collect() }))
    }
}

/// An open tap.
struct Open {
    link: Link,
    /// `None` once workers have them.
    queues: Vec<Option<Arc<TapQueue>>>,
}

impl Session for Open {
    fn link(&self) -> &Link {
        &self.link
    }

    fn halves(&mut self, queue: usize) -> Result<(ReceiveHalf, TransmitHalf), String> {
        let tap = self.queues.get_mut(queue).and_then(Option::take).ok_or("the tap has too few queues")?;
        Ok((Box::new(TapReceive::new(tap.clone())), Box::new(TapTransmit::new(tap))))
    }

    fn describe(&self, link: &Link) -> String {
        format!("interface {}, MTU {}", link.name, link.mtu)
    }
}
