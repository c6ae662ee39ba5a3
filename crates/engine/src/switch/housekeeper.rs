//! The housekeeper: a thread that answers neighbours, ends broken sessions, ages addresses, opens failed ports again, and finds events
//! that nobody else tells of.

use super::inner::Inner;
use super::open::{self, Connection};
use super::topology::Topology;
use crate::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Interval of housekeeping: handling faults that workers raised, and ageing addresses.
const HOUSEKEEPING: Duration = Duration::from_millis(50);

/// Pause after delivering answers: what is beyond the rings' size goes unanswered in that time.
const NEIGHBOUR_REPLY_INTERVAL: Duration = Duration::from_millis(10);

impl Inner {
    /// Answers neighbours, ends connections whose queues had to stop, and forgets old addresses.
    pub(super) fn run_housekeeping(&self) {
        let (mut swept, mut files) = (0, Vec::new());
        while !self.stop.load(Ordering::Relaxed) {
            let is_asked = self.wait_to_be_asked();
            self.retry();
            let topology = self.topology();
            // Only then: a look at each queue of each port costs a part of a processor where there are hundreds.
            let answered = is_asked && self.deliver_answers(&topology);
            for port in &topology.layout.ports {
                if let Some(why) = port.fault.take(|| port.disconnect()) {
                    tracing::error!("port \"{}\": {why}", port.name);
                }
            }
            let now = clock::seconds();
            if now != swept {
                swept = now;
                for (_, bridge, places) in topology.bridges() {
                    let is_up = |port: &usize| topology.layout.ports[*port].state().up;
                    let up: Vec<bool> = places.iter().map(|port| port.as_ref().is_some_and(is_up)).collect();
                    // Ports that have come since are not in this topology.
                    bridge.table.sweep(now, |place| up.get(usize::from(place)) == Some(&false));
                }
                files = topology.layout.ports.iter().flat_map(|port| port.recordings()).collect();
                self.look_for_sockets();
                topology.layout.ports.iter().for_each(|port| port.renew_told());
                self.observer.lock().unwrap().look(&topology, &self.events);
            }
            drop(topology);
            files.drain(..).for_each(|file| file.keep());
            if answered {
                std::thread::sleep(NEIGHBOUR_REPLY_INTERVAL);
            }
        }
    }

    /// Tries again to open ports, unless the specification is being changed.
    fn retry(&self) {
        let Ok(mut open) = self.open.try_lock() else { return };
        let topology = self.topology();
        for (spec, shared) in topology.spec.ports.iter().zip(&topology.layout.ports) {
            if let Some(connection) = open.connections.get_mut(&shared.id) {
                open::retry(connection, spec, shared, &self.fabric);
            }
        }
    }

    /// Looks whether ports can still be reached at their sockets.
    fn look_for_sockets(&self) {
        let Ok(open) = self.open.try_lock() else { return };
        for port in &self.topology().layout.ports {
            let lost = open.connections.get(&port.id).and_then(Connection::listener).filter(|l| !l.is_reachable());
            let missing = lost.map(|listener| {
                format!(
                    "its socket {} was removed or replaced, so that nobody can connect; a reload makes it again",
                    listener.path().display()
                )
            });
            if port.set_missing(missing.clone())
                && let Some(missing) = missing
            {
                tracing::warn!("port \"{}\": {missing}", port.name);
            }
        }
    }

    /// Delivers the answers that workers have left, and reports whether there were any.
    fn deliver_answers(&self, topology: &Topology) -> bool {
        let mut answered = false;
        for port in &topology.layout.ports {
            for (id, answers) in port.neighbours() {
                self.fabric.send(port, id.queue, answers);
                answered = true;
            }
            for (id, answers) in port.refusals() {
                self.fabric.receive(port, id.queue, answers);
                answered = true;
            }
        }
        answered
    }

    /// Sleeps until neighbours ask, at most for the housekeeping interval; reports whether they did.
    fn wait_to_be_asked(&self) -> bool {
        let mut fds = [PollFd::new(self.asked.fd(), PollFlags::IN)];
        let longest = Timespec { tv_sec: 0, tv_nsec: HOUSEKEEPING.as_nanos() as i64 };
        let is_asked = poll(&mut fds, Some(&longest)).is_ok_and(|ready| ready > 0);
        if is_asked {
            self.asked.clear();
        }
        is_asked
    }
}
