//! Steering: which frames go to the sockets, and which to the kernel.

use super::Sockets;
use crate::port::ReceiveHalf;
use crate::port::af_packet::PacketReceive;
use crate::port::af_xdp::{Steered, XdpReceive};
use netdev::{PacketRx, RxConfig};
use xsk::{Groups, Steering};

impl Sockets {
    /// Returns which frames may go to sockets that have the guests' memories.
    pub(super) fn destinations(&self) -> Result<Steering, String> {
        let Some(macs) = &self.macs else { return Ok(Steering::All) };
        if self.is_zero_copy() {
            return Err(format!(
                "the hardware of {} fills buffers before frames can be steered by MAC address: set mode = \"copy\" at port \
                 \"{}\", or let the NIC steer and set steering = \"given\"",
                self.watched.link.name,
                self.site.name()
            ));
        }
        Ok(Steering::Destinations { macs: macs.clone(), groups: Groups::All })
    }

    /// Applies `steering`.
    pub(super) fn steer(&mut self, steering: Steering) -> Result<(), String> {
        if self.steering != steering {
            self.redirect.steer(&steering).map_err(|error| error.to_string())?;
            self.steering = steering;
        }
        Ok(())
    }

    /// Returns the half of a queue, with all frames that are steered to the kernel if it is queue 0.
    pub(super) fn with_passed(&self, queue: usize, half: XdpReceive) -> Result<ReceiveHalf, String> {
        if queue > 0 || self.steering == Steering::All {
            return Ok(Box::new(half));
        }
        let rings = PacketRx::open(&self.watched.link, 1, &RxConfig::default()).map_err(|e| e.to_string())?;
        let ring = rings.into_iter().next().ok_or("there is no packet socket")?;
        *self.watched.passed.lock().unwrap() = vec![ring.monitor()];
        let passed = PacketReceive::new(ring, self.site.drops().clone());
        Ok(Box::new(Steered::new(half, passed, self.mapped(queue))))
    }
}
