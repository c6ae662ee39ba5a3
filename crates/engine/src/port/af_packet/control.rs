//! An open AF_PACKET port.

use super::{LongFrames, PacketReceive, PacketTransmit, Settings};
use crate::port::Site;
use crate::port::interface::{Interface, Session};
use crate::port::offloads::Chosen;
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
        let chosen = Chosen::new(&**site, self.offloads);
        let rings = PacketRx::open(&link, self.queues.into(), &RxConfig::of(chosen.offloads)).map_err(text)?;
        let monitors = rings.iter().map(PacketRx::monitor).collect();
        let longest_mtu = rings.iter().map(PacketRx::longest_mtu).min().unwrap_or(usize::MAX).max(link.mtu);
        let both = |ring| Ok(Some((ring, PacketTx::open(&link, &TxConfig::of(chosen.offloads))?)));
        let queues: Vec<_> = rings.into_iter().map(both).collect::<Result<_, _>>().map_err(text)?;
        site.set_offloads(chosen.stats());
        let states = queues.iter().flatten().map(|(_, transmit)| transmit.state()).collect();
        let long = Arc::new(LongFrames::default());
        long.set_mtu(link.mtu);
        Ok(Box::new(Open { site: site.clone(), link, queues, monitors, states, long, longest_mtu, is_told: false }))
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
    long: Arc<LongFrames>,
    /// The MTU up to which frames have room in the rings.
    longest_mtu: usize,
    /// Whether users have been told of long frames.
    is_told: bool,
}

impl Session for Open {
    fn link(&self) -> &Link {
        &self.link
    }

    fn attach(&mut self, site: &Arc<dyn Site>, queue: usize) -> Result<(), String> {
        let (receive, transmit) = self.queues.get_mut(queue).and_then(Option::take).ok_or("it has too few rings")?;
        let receive = PacketReceive::new(receive, site.drops().clone(), self.long.clone());
        let transmit = PacketTransmit::new(transmit);
        site.attach(queue, Box::new(receive), Box::new(transmit)).map_err(|why| why.to_string())
    }

    fn changed(&mut self, link: &Link) -> Result<(), String> {
        if link.mtu > self.longest_mtu {
            return Err(format!(
                "the MTU of interface {} is {} now: it is opened anew with room for that",
                link.name, link.mtu
            ));
        }
        self.states.iter().for_each(|state| state.set(link));
        self.long.set_mtu(link.mtu);
        self.link = link.clone();
        Ok(())
    }

    fn interval(&self) -> Option<Duration> {
        Some(CHECK)
    }

    fn check(&mut self) -> Result<(), String> {
        self.monitors.iter().for_each(|monitor| self.site.count_losses(monitor));
        if self.monitors.iter().any(RxMonitor::is_jammed) {
            return Err(format!(
                "a sender at interface {} left work on a frame that the kernel can't describe, and the kernel passed on no frame after \
                 it: it is opened anew; if that happens again, switch off segmentation other than of TCP and UDP where the frames come \
                 from (`ethtool -K END tx-sctp-segmentation off`, or UFO of a guest)",
                self.link.name
            ));
        }
        if self.long.is_seen() && !std::mem::replace(&mut self.is_told, true) {
            let detail = self.describe(&self.link);
            tracing::warn!("port \"{}\": {detail}", self.site.name());
            self.site.set_state(self.link.trouble().is_none(), detail);
        }
        Ok(())
    }

    fn detaching(&mut self) {
        self.monitors.iter().for_each(|monitor| self.site.count_losses(monitor));
    }

    fn describe(&self, link: &Link) -> String {
        let Link { name, mtu, .. } = link;
        let detail = format!("interface {name}, copied by the kernel, MTU {mtu}");
        if !self.long.is_seen() {
            return detail;
        }
        format!(
            "{detail}; longer frames have arrived, which no port with this MTU can send: switch off segmentation where they come \
             from (at the other end of a veth pair, `ethtool -K END tso off gso off`), and merging here (`ethtool -K {name} gro \
             off lro off`)"
        )
    }
}
