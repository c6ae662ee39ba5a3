//! Capture files as devices.

use crate::memory::Memory;
use crate::process::alone;
use crate::rig::{GUEST_SIZE, GUEST_START, OWN_START, Port, frame, number, start, wait};
use dpdk::{Kind, Loan, ToSend};

/// Returns a pcap file of Ethernet frames.
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = [0xa1b2c3d4u32, 0x0004_0002, 0, 0, 65535, 1].map(u32::to_ne_bytes).concat();
    for frame in frames {
        let len = frame.len() as u32;
        file.extend([0, 0, len, len].map(u32::to_ne_bytes).concat());
        file.extend(frame);
    }
    file
}

#[test]
fn frames_of_a_capture_file_come_and_others_go_to_one() {
    alone(|| {
        let dpdk = start();
        let directory = tempfile::tempdir().unwrap();
        let [from, to] = ["from.pcap", "to.pcap"].map(|name| directory.path().join(name));
        // The last one does not fit a buffer.
        let frames: Vec<_> =
            (0..10).map(|number| frame(number, 60 + number as usize * 150)).chain([frame(10, 3000)]).collect();
        std::fs::write(&from, pcap(&frames)).unwrap();
        let mut port = Port::open(
            &dpdk,
            &format!("net_pcap0,rx_pcap={},tx_pcap={}", from.display(), to.display()),
            &crate::rig::CONFIG,
        );
        let guest = Memory::new(64, GUEST_SIZE);
        let _region = guest.share(&port.device);
        // This driver writes to the headroom of a long frame's other buffers, which lies before a guest's.
        let loan = |start: u16| Loan::new(guest.addr(0), GUEST_SIZE as u32, start, 0);
        assert_eq!(port.receive.lend(Kind::Guest, &[loan(GUEST_START)]), 0);
        assert_eq!(port.receive.lend(Kind::Guest, &[loan(OWN_START)]), 1);
        port.device.start().unwrap();

        let mut numbers = Vec::new();
        let mut long = Vec::new();
        wait("the file's frames", || {
            for received in port.burst() {
                let memory = if received.kind == Kind::Guest { &guest } else { &port.own };
                let bytes = memory.read(received.addr, received.len);
                if received.more || !long.is_empty() {
                    long.extend(bytes);
                } else {
                    numbers.push(number(&bytes).unwrap());
                }
            }
            long.len() >= 3000
        });
        assert_eq!(numbers, (0..10).collect::<Vec<_>>());
        assert_eq!(number(&long), Some(10));

        guest.write(guest.addr(1), &frame(77, 300));
        port.send(&[ToSend::new(guest.addr(1), 300, 1)]);
        wait("its id", || port.done() == [1]);
        port.device.close();
        assert_eq!(std::fs::read(&to).unwrap()[40..], frame(77, 300));
    });
}
