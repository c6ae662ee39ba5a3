//! The session of an AF_XDP port: its sockets while the interface stays as it is.

use super::Settings;
use super::sockets::Sockets;
use super::watched::Watched;
use crate::port::interface;
use crate::port::zero_copy::ZeroCopyPort;
use crate::port::{ReceiveHalf, Site, TransmitHalf};
use netdev::{Link, Links};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Interval at which the watcher checks the interface.
const CHECK: Duration = Duration::from_millis(50);

impl interface::Interface for Settings {
    fn name(&self) -> Option<&str> {
        Some(&self.interface)
    }

    fn open(&self, links: &Links, site: &Arc<dyn Site>) -> Result<Box<dyn interface::Session>, String> {
        let sockets = Sockets::open(self, links, site)?;
        let (watched, detail) = (sockets.watched.clone(), sockets.describe());
        Ok(Box::new(XdpSession { site: site.clone(), watched, detail, sockets: Some(sockets) }))
    }
}

/// An open port, as its watcher sees it.
struct XdpSession {
    site: Arc<dyn Site>,
    watched: Arc<Watched>,
    detail: String,
    /// `None` while a mapping has it.
    sockets: Option<Sockets>,
}

impl interface::Session for XdpSession {
    fn link(&self) -> &Link {
        &self.watched.link
    }

    fn halves(&mut self, queue: usize) -> Result<(ReceiveHalf, TransmitHalf), String> {
        let session = self.sockets.as_mut().ok_or("a mapping has it already")?;
        Ok((session.start_receive(queue)?, session.start_transmit(queue)?))
    }

    fn attached(&mut self) {
        // If the port is not mapped, the session only has to live.
        if let Some((mapping, session)) = self.site.mapping().and_then(|mapping| Some((mapping, self.sockets.take()?)))
        {
            mapping.physical_up(self.site.clone(), Box::new(session));
        }
    }

    fn detaching(&mut self) {
        self.watched.count(&*self.site);
        if let Some(mapping) = self.site.mapping() {
            mapping.physical_down();
        }
    }

    fn changed(&mut self, link: &Link) -> Result<(), String> {
        if link.mtu != self.watched.link.mtu {
            return Err(format!("the MTU of {} changes to {}", link.name, link.mtu));
        }
        Ok(())
    }

    fn interval(&self) -> Option<Duration> {
        Some(CHECK)
    }

    fn check(&mut self) -> Result<(), String> {
        self.watched.count(&*self.site);
        if self.watched.failed.load(Ordering::Relaxed) {
            return Err("its sockets could not be opened again".to_owned());
        }
        Ok(())
    }

    fn describe(&self, link: &Link) -> String {
        format!("{}, MTU {}", self.detail, link.mtu)
    }
}
