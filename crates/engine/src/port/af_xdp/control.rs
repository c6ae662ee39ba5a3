//! The session of an AF_XDP port: its sockets while the interface stays as it is.

use super::Settings;
use super::device::Device;
use super::queue::XdpQueue;
use crate::port::interface;
use crate::port::zero_copy::ZeroCopyQueue;
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
        let (device, opened) = Device::open(self, links, site)?;
        let queue = |(index, opened)| Some(XdpQueue::new(device.clone(), index, opened));
        let queues = opened.into_iter().enumerate().map(queue).collect();
        Ok(Box::new(XdpSession { device, queues }))
    }
}

/// An open port, as its watcher sees it.
struct XdpSession {
    device: Arc<Device>,
    /// By index; `None` while a mapping has it.
    queues: Vec<Option<XdpQueue>>,
}

impl interface::Session for XdpSession {
    fn link(&self) -> &Link {
        &self.device.watched.link
    }

    fn halves(&mut self, queue: usize) -> Result<(ReceiveHalf, TransmitHalf), String> {
        let queue = self.queues[queue].as_mut().ok_or("a mapping has it already")?;
        Ok((queue.start_receive()?, queue.start_transmit()?))
    }

    fn attached(&mut self) {
        // Queues that are not mapped only have to live.
        let site = &self.device.site;
        for (index, mapping) in site.mappings() {
            if let Some(queue) = self.queues.get_mut(index).and_then(Option::take) {
                mapping.physical_up(site.clone(), Box::new(queue));
            }
        }
    }

    fn detaching(&mut self) {
        let Device { site, watched, .. } = &*self.device;
        watched.count(&**site);
        site.mappings().for_each(|(_, mapping)| mapping.physical_down());
    }

    fn changed(&mut self, link: &Link) -> Result<(), String> {
        if link.mtu != self.device.watched.link.mtu {
            return Err(format!("the MTU of {} changes to {}", link.name, link.mtu));
        }
        Ok(())
    }

    fn interval(&self) -> Option<Duration> {
        Some(CHECK)
    }

    fn check(&mut self) -> Result<(), String> {
        let Device { site, watched, .. } = &*self.device;
        watched.count(&**site);
        if watched.failed.load(Ordering::Relaxed) {
            return Err("its sockets could not be opened again".to_owned());
        }
        Ok(())
    }

    fn describe(&self, link: &Link) -> String {
        format!("{}, MTU {}", self.device.describe(), link.mtu)
    }
}
