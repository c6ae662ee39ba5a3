//! Work that a driver leaves to the device, and the device to another driver: by the headers in front of frames.

use crate::support::{Case, Driver, POSTED, SENT, frame};
use packet::offload::{Cut, Message, Offload, Offloads, Work, header};
use packet::{BurstStorage, Headers};
use proptest::prelude::*;
use virtqueue::{NET_HEADER, offload};

/// A TCP message in IPv4: its first 54 bytes. The rest has no meaning.
fn message(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = frame(number, len);
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14..34].fill(0);
    bytes[14] = 0x45;
    bytes[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    bytes[23] = 6;
    bytes[46] = 0x50;
    bytes
}

/// Work that may be left on a message of this length.
fn left(kind: u8, len: usize) -> Offload {
    match kind % 3 {
        0 => Offload::NONE,
        1 => Offload::checksum(34, 16),
        _ if len <= 154 => Offload::checksum(40, 2),
        _ => Offload::cut(Cut { message: Message::Tcp4, size: 100, start: 34, header: 20, ecn: false }).unwrap(),
    }
}

/// Puts a frame behind this header, in buffers of these lengths, the last of which takes the rest.
fn send(driver: &mut Driver, area: u16, header: [u8; 10], bytes: &[u8], cuts: &[u8]) {
    let at = driver.area(area);
    driver.write(at, &header);
    driver.write(at + 10, &[0, 0]);
    driver.write(at + u64::from(NET_HEADER), bytes);
    let mut cuts: Vec<u32> = cuts.iter().map(|&cut| 1 + u32::from(cut) % 30).collect();
    cuts.push(NET_HEADER + bytes.len() as u32 - cuts.iter().sum::<u32>());
    driver.add(area, &cuts, SENT).unwrap();
    driver.queue.publish();
}

/// Returns the header of the next frame that `driver` got, and the frame, from buffers of `room` bytes.
fn got(driver: &mut Driver, areas: &mut std::ops::Range<u16>, room: u32) -> ([u8; 12], Vec<u8>) {
    let mut bytes = Vec::new();
    let mut buffers = 1;
    while buffers > 0 {
        let used = driver.queue.pop_used().unwrap().expect("it was delivered");
        bytes.extend(driver.read(driver.area(areas.next().unwrap()), used.len.min(room)));
        if bytes.len() == used.len as usize {
            buffers = u16::from_le_bytes([bytes[10], bytes[11]]);
        }
        buffers -= 1;
    }
    let frame = bytes.split_off(NET_HEADER as usize);
    (bytes.try_into().unwrap(), frame)
}

fn case(packed: bool) -> Case {
    Case { packed, in_order: false, event_idx: false, mergeable: true, size: 64 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 200 }, failure_persistence: None, ..Default::default() })]

    /// Whatever the pieces of a frame, its receiver learns of the same work.
    #[test]
    fn a_receiver_gets_the_work_that_a_sender_left(
        [sends_packed, gets_packed, judged]: [bool; 3],
        messages in prop::collection::vec((any::<u8>(), 60usize..1500, prop::collection::vec(any::<u8>(), 0..4)), 1..8),
        room in 200u32..2000,
    ) {
        let all = offload::features(Offloads::ALL);
        let mut sender = Driver::with(case(sends_packed), all);
        let mut receiver = Driver::with(case(gets_packed), all);
        for area in 0..64 {
            receiver.add(area, &[room], POSTED).unwrap();
        }
        receiver.queue.publish();
        let (dequeue, enqueue) = (sender.dequeue(), receiver.enqueue());
        prop_assert_eq!(enqueue.takes(), Offloads::ALL);
        let (mut storage, mut headers) = (Box::<BurstStorage>::default(), Headers::default());
        let mut areas = 0..64;
        for (number, (kind, len, cuts)) in messages.iter().enumerate() {
            let bytes = message(number as u32, *len);
            send(&mut sender, number as u16, header::write(left(*kind, *len)), &bytes, cuts);
        }
        let mut burst = storage.start();
        prop_assert_eq!(dequeue.receive(&mut burst).unwrap(), messages.len());
        dequeue.read_headers(&mut burst, 0);
        let frames = burst.frames();
        prop_assert_eq!(frames.len(), messages.len());
        let needs = messages.iter().fold(Offloads::NONE, |all, (kind, len, _)| all | left(*kind, *len).needs());
        prop_assert_eq!(frames.offloads(), needs);
        let done = if judged { enqueue.transmit_judged(frames.judge(&mut headers).end()) } else { enqueue.transmit(frames) };
        prop_assert_eq!(done.unwrap().frames as usize, messages.len());
        for (number, (kind, len, _)) in messages.iter().enumerate() {
            let (head, bytes) = got(&mut receiver, &mut areas, room);
            prop_assert_eq!(&head[..10], &header::write(left(*kind, *len))[..]);
            prop_assert_eq!(bytes, message(number as u32, *len));
        }
        dequeue.recycle();
    }
}

#[test]
fn work_that_a_driver_must_not_leave_costs_it_the_frame() {
    for packed in [false, true] {
        for cuts in [&[][..], &[20, 3]] {
            let mut driver = Driver::with(case(packed), offload::features(Offloads::CHECKSUM | Offloads::TCP4));
            let dequeue = driver.dequeue();
            let bytes = message(0, 600);
            let good = header::write(left(2, 600));
            let bad = [
                // Beyond the end of the frame; segments of another protocol, and of no length; a cut that was not negotiated.
                header::write(Offload::checksum(590, 16)),
                [good[0], 4, good[2], good[3], good[4], good[5], good[6], good[7], good[8], good[9]],
                [good[0], 1, good[2], good[3], 0, 0, good[6], good[7], good[8], good[9]],
                [good[0], 0x81, good[2], good[3], good[4], good[5], good[6], good[7], good[8], good[9]],
            ];
            for (area, header) in [&[good][..], &bad, &[good]].concat().into_iter().enumerate() {
                send(&mut driver, area as u16, header, &bytes, cuts);
            }
            let mut storage = Box::<BurstStorage>::default();
            let mut burst = storage.start();
            assert_eq!(dequeue.receive(&mut burst).unwrap(), bad.len() + 2);
            dequeue.read_headers(&mut burst, 0);
            let works: Vec<_> = burst.frames().as_slice().iter().map(|frame| frame.offload()).collect();
            assert_eq!(works, [left(2, 600); 2], "{packed} {cuts:?}");
            assert_eq!(burst.bytes(), 1200);
            assert_eq!(dequeue.dropped().bad_offload, bad.len() as u64);
            dequeue.recycle();
            assert_eq!(std::iter::from_fn(|| driver.queue.pop_used().unwrap()).count(), bad.len() + 2);
        }
    }
}

#[test]
fn headers_count_only_where_that_was_negotiated() {
    let mut driver = Driver::new(case(false));
    let (dequeue, enqueue) = (driver.dequeue(), Driver::new(case(false)).enqueue());
    send(&mut driver, 0, [0xff; 10], &message(0, 100), &[]);
    send(&mut driver, 1, [0xff; 10], &message(0, 100), &[1]);
    let mut storage = Box::<BurstStorage>::default();
    let mut burst = storage.start();
    assert_eq!(dequeue.receive(&mut burst).unwrap(), 2);
    dequeue.read_headers(&mut burst, 0);
    assert!(burst.frames().as_slice().iter().all(|frame| frame.offload().work() == Work::Nothing));
    assert!(enqueue.takes().is_none());
}
