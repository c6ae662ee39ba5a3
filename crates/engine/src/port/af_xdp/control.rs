//! The session of an AF_XDP port: its sockets while the interface stays as it is.

use super::Settings;
use super::device::Device;
use super::queue::XdpQueue;
use crate::port::interface;
use crate::port::unfinished::Unfinished;
use crate::port::{Site, zero_copy};
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
        let (device, opened) = Device::open(self, links, site)?;
        let queue = |(index, opened)| Some(XdpQueue::new(device.clone(), index, opened));
        let queues = opened.into_iter().enumerate().map(queue).collect();
        let link = device.watched.link.clone();
        Ok(Box::new(XdpSession { device, link, queues, is_told: false }))
    }
}

/// An open port, as its watcher sees it.
struct XdpSession {
    device: Arc<Device>,
    /// The interface as it is now.
    link: Link,
    /// By index; `None` once attached.
    queues: Vec<Option<XdpQueue>>,
    /// Whether users have been told of unfinished checksums.
    is_told: bool,
}

impl interface::Session for XdpSession {
    fn link(&self) -> &Link {
        &self.device.watched.link
    }

    fn attach(&mut self, site: &Arc<dyn Site>, queue: usize) -> Result<(), String> {
        let opened = self.queues.get_mut(queue).and_then(Option::take).ok_or("it has too few sockets")?;
        zero_copy::attach(site, queue, Box::new(opened))
    }

    fn detaching(&mut self) {
        let Device { site, watched, .. } = &*self.device;
        watched.count(&**site);
        site.physical_down();
    }

    fn changed(&mut self, link: &Link) -> Result<(), String> {
        if link.mtu != self.device.watched.link.mtu {
            return Err(format!("the MTU of {} changes to {}", link.name, link.mtu));
        }
        self.link = link.clone();
        Ok(())
    }

    fn interval(&self) -> Option<Duration> {
        Some(CHECK)
    }

    fn check(&mut self) -> Result<(), String> {
        let Device { site, watched, .. } = &*self.device;
        watched.count(&**site);
        let unfinished = self.device.unfinished.as_ref();
        if unfinished.is_some_and(Unfinished::is_seen) && !std::mem::replace(&mut self.is_told, true) {
            site.set_state(self.link.trouble().is_none(), self.describe(&self.link));
        }
        if watched.failed.load(Ordering::Relaxed) {
            return Err("its sockets could not be reopened".to_owned());
        }
        Ok(())
    }

    fn describe(&self, link: &Link) -> String {
        format!("{}, MTU {}", self.device.describe(), link.mtu)
    }
}
