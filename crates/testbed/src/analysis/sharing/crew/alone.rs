//! A single thread, which shares its ports with no other.

use super::error::CrewSubjectError;
use super::function::Function;
use loadgen::{cpu, cycles};
use nf::crew::Histogram;
use nf::{Idle, Packet, Ports, run};
use std::sync::atomic::AtomicBool;

/// Its counters, as the workers of a crew have them.
#[derive(Default)]
pub struct Counted {
    pub io: Histogram,
    pub batches: u64,
    pub packets: u64,
}

/// Receives, processes and sends frames on this processor until `stop` is set.
pub fn work(
    ports: &mut Ports,
    mut function: Function<'_>,
    on: usize,
    stop: &AtomicBool,
) -> Result<Counted, CrewSubjectError> {
    cpu::pin(on)?;
    let mut counted = Counted::default();
    let mut burst: Vec<Packet> = Vec::new();
    run(ports, Idle::Poll, stop, |ports: &mut Ports| {
        let start = cycles::now();
        let received = ports[0].receive(&mut burst);
        if received > 0 {
            let got = cycles::now();
            burst.iter().for_each(|packet| function.process(packet));
            let processed = cycles::now();
            ports[0].transmit_all(&mut burst);
            let sent = cycles::now();
            counted.io.add((got - start) + (sent - processed), received);
            counted.batches += 1;
            counted.packets += received as u64;
        }
        received
    })?;
    Ok(counted)
}
