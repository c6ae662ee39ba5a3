//! Traffic through a node, from one thread: a NIC that sends at a fixed pace, the node's network function, and the sink. Each
//! packet has a number and the cycle count at sending, so that losses and times are known one by one, on one clock.

mod losses;
mod packet;
mod sink;
mod source;

pub use self::packet::CHAIN;
pub use losses::Losses;
pub use sink::{Arrivals, times};

use crate::cycles;
use crate::pace::{Intervals, Pace};
use crate::wire::Nic;
use netdev::PacketRx;
use nf::wire::ethernet;
use nf::{Packet, Ports};
use paflow::AggregationRules;
use sink::Sink;
use source::Source;
use virtqueue::Fatal;

/// Microseconds between two clock readings beyond which this thread was not running.
const STALL: f64 = 50.0;
/// Seconds without an arrival after which no packet is in flight, even if the node had no processor for a while.
const DRAIN: f64 = 0.2;

/// Exit of packets from the node.
pub enum Exit {
    /// A NIC.
    Nic(Nic),
    /// The other end of a kernel cable.
    Kernel(PacketRx),
}

/// Rate and shape of traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfferedLoad {
    /// Packets per second.
    pub rate: f64,
    /// Packets per train.
    pub train: u16,
    /// Whether they are joined before they reach the node.
    pub joined: bool,
}

/// Packets sent, and those that arrived.
pub struct Passed {
    /// Seconds in which packets were sent.
    pub seconds: f64,
    /// Packets that were due.
    pub offered: u64,
    /// Packets among these for which the node had no buffers.
    pub refused: u64,
    /// Number of times that packets were sent.
    pub turns: u64,
    /// Number of times that this thread was not running.
    pub stalls: u64,
    /// Seconds that it was not running.
    pub stalled: f64,
    /// Share of the time in which this thread was busy: near 1, it is the limit, and not the node.
    pub busy: f64,
    /// Packets that arrived.
    pub arrivals: Arrivals,
}

/// A network function.
pub struct Function {
    /// Packets arrive on the first port and leave on the second one.
    pub ports: Ports,
    /// Whether it swaps the addresses of every packet, instead of passing it on without reading it.
    pub swaps: bool,
}

/// Source, network function and sink.
pub struct Traffic {
    entry: Nic,
    exit: Exit,
    function: Function,
    burst: Vec<Packet>,
    source: Source,
    sink: Sink,
    hz: f64,
}

impl Traffic {
    /// Creates traffic between a NIC and an exit; the aggregates there follow these rules.
    pub fn new(entry: Nic, exit: Exit, function: Function, load: &OfferedLoad, rules: AggregationRules) -> Traffic {
        let source = Source::new(load.train, load.joined.then_some(&rules));
        let (sink, hz) = (Sink::new(rules), cycles::frequency());
        Traffic { entry, exit, function, burst: Vec::new(), source, sink, hz }
    }

    /// Sends packets for `seconds`, and waits for them. Only the rate of `load` may differ from before.
    pub fn run(&mut self, load: &OfferedLoad, seconds: f64) -> Result<Passed, Fatal> {
        let (offered, refused, turns) = (self.source.offered(), self.source.refused(), self.source.turns());
        self.sink.restart(offered);
        let (mut stalls, mut stalled, mut busy) = (0, 0, 0);
        let begin = cycles::now();
        let mut pace = Pace::new(begin, load.rate, self.hz, load.train, Intervals::Equal).after(offered);
        let (end, stall) = (begin + (seconds * self.hz) as u64, (STALL * 1e-6 * self.hz) as u64);
        let mut now = begin;
        while now < end {
            let moved = self.send(&mut pace, now)? | self.pass_on()?;
            let then = cycles::now();
            let took = then - now;
            if took > stall {
                pace.postpone(took);
                (stalls, stalled) = (stalls + 1, stalled + took);
            } else if moved {
                busy += took;
            }
            now = then;
        }
        self.drain()?;
        let sent = self.source.offered();
        Ok(Passed {
            seconds: (now - begin - stalled) as f64 / self.hz,
            offered: sent - offered,
            refused: self.source.refused() - refused,
            turns: self.source.turns() - turns,
            stalls,
            stalled: stalled as f64 / self.hz,
            busy: busy as f64 / (now - begin - stalled) as f64,
            arrivals: self.sink.restart(sent),
        })
    }

    /// Returns the frequency of the clock.
    pub fn hz(&self) -> f64 {
        self.hz
    }

    #[inline(always)]
    fn send(&mut self, pace: &mut Pace, now: u64) -> Result<bool, Fatal> {
        match self.entry.rings(0).both() {
            Some((to, _)) => self.source.turn(pace, to, now),
            None => Ok(false),
        }
    }

    /// Runs one turn of the network function and of the sink.
    #[inline(always)]
    fn pass_on(&mut self) -> Result<bool, Fatal> {
        let Function { ports, swaps } = &mut self.function;
        let passed = ports[0].receive(&mut self.burst) > 0;
        if passed {
            if *swaps {
                self.burst.iter_mut().flat_map(Packet::embedded).for_each(ethernet::swap_addresses);
            }
            ports[1].transmit_all(&mut self.burst);
        }
        let arrived = match &mut self.exit {
            Exit::Nic(nic) => match nic.rings(0).both() {
                Some((_, from)) => self.sink.take_from_driver(from)?,
                None => false,
            },
            Exit::Kernel(ring) => self.sink.take_from_kernel(ring),
        };
        Ok(passed | arrived)
    }

    fn drain(&mut self) -> Result<(), Fatal> {
        let mut last = cycles::now();
        let patience = (DRAIN * self.hz) as u64;
        while cycles::now() - last < patience {
            if self.pass_on()? {
                last = cycles::now();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use paflow::AggregationRules;

    /// Returns the rules of a source and sink.
    pub fn rules() -> AggregationRules {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.toml");
        let own = "[aggregation]\nmac = \"02:00:00:00:01:02\"\naddresses = [\"192.0.2.2\"]\n";
        let next = "[[aggregation.next-hop]]\nnfi = 7\nmac = \"02:00:00:00:01:01\"\nip = \"192.0.2.1\"\n";
        std::fs::write(&file, format!("{own}{next}[[aggregation.flow]]\nsc = {}\nnfi = 7\n", super::CHAIN)).unwrap();
        AggregationRules::new(&settings::aggregation::load(&file, &[]).unwrap().spec(), std::iter::empty())
    }
}
