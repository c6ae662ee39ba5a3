//! Two queues: each has its own state.

use super::rig::{Rig, VIDS};
use e2e::stream::{Arrived, joined_both_ways, packet};
use e2e::wait_for;
use lab::Result;
use nf::{Options, PortOptions, Ports};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

const PACKETS: u64 = 4000;

/// Opens a guest with two queue pairs.
fn open(socket: PathBuf) -> Ports {
    let port = PortOptions { queue_pairs: 2, ..PortOptions::new(socket) };
    Ports::open(Options { huge_pages: false, ..Options::new(vec![port]) }, &AtomicBool::new(false)).unwrap()
}

/// Packets of one queue in one direction.
#[derive(Default)]
struct Way {
    sent: u64,
    arrived: Arrived,
}

#[test]
fn packets_of_two_queues_stay_apart() -> Result<()> {
    let mut rig = Rig::start(2)?;
    let mut ends = ["near", "far"].map(|port| open(rig.home.socket(port)));
    rig.testpmd.start()?;
    let mut ways: [[Way; 2]; 2] = Default::default();
    let mut burst = Vec::new();
    wait_for("all packets to arrive", || {
        for (way, queues) in ways.iter_mut().enumerate() {
            for (queue, vid) in (0..2).zip(VIDS) {
                let Way { sent, arrived } = &mut queues[usize::from(queue)];
                let port = &mut ends[way][0];
                while burst.len() < 32 && *sent < PACKETS && *sent - arrived.count() < 64 {
                    let bytes = packet(way as u64, *sent, &[vid]);
                    let Some(mut packet) = port.alloc(bytes.len()) else { break };
                    packet.copy_from_slice(&bytes);
                    packet.set_queue(queue);
                    burst.push(packet);
                    *sent += 1;
                }
                port.transmit_all(&mut burst);
            }
            let mut received = Vec::new();
            ends[1 - way][0].receive(&mut received);
            for packet in received {
                let queue = usize::from(packet.queue());
                queues[queue].arrived.take(way as u64, &VIDS[queue..queue + 1], &packet);
            }
        }
        ways.iter().flatten().all(|way| way.arrived.count() == PACKETS).then_some(())
    });
    assert_eq!(ends.each_ref().map(|end| end.counters()[0].full), [0, 0]);
    rig.testpmd.stop()?;
    let [received, sent] = rig.millrace.sides("wan");
    joined_both_ways(&received, &sent, 2 * PACKETS);
    for port in rig.testpmd.named_stats()? {
        let counted = ["rx_q0_packets", "rx_q1_packets", "tx_q0_packets", "tx_q1_packets"].map(|name| port[name]);
        assert_eq!(counted, [PACKETS; 4], "{port:?}");
    }
    rig.millrace.none_dropped();
    drop(ends);
    rig.stop()
}
