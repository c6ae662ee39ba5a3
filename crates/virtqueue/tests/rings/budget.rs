//! The cost limit of one call, in descriptors: legal or not, a guest that exceeds it waits for its next turn.

use crate::support::ROOM;
use crate::support::guest::{Guest, INDIRECT, NEXT, WRITE, receive, transmit};
use packet::MAX_BURST;
use virtqueue::{Fatal, MAX_CHAIN, NET_HEADER};

const RING: u16 = 256;

/// Buffer areas of the guest: one for the descriptor table, one for the buffers in it.
const TABLE: u16 = 200;
const BUFFER: u16 = 202;

/// Descriptors per call, without the last chain.
const BUDGET: u64 = 256;

fn both(test: impl Fn(Guest)) {
    [false, true].into_iter().for_each(|packed| test(Guest::sized(packed, RING)));
}

/// Returns one indirect descriptor for a table of `entries` descriptors, the first of which has length `first`.
fn table(guest: &Guest, entries: u16, (first, len): (u32, u32), flags: u16) -> [(u64, u32, u16); 1] {
    let (at, buffer) = (guest.driver.area(TABLE), guest.driver.area(BUFFER));
    for entry in 0..entries {
        let next = if entry + 1 < entries { NEXT } else { 0 };
        let len = if entry == 0 { first } else { len };
        guest.descriptor(at + 16 * u64::from(entry), (buffer, len, flags | next), entry + 1);
    }
    [(at, 16 * u32::from(entries), INDIRECT)]
}

/// Receives until nothing is left; returns the number of calls and frames.
fn receive_all(guest: &Guest) -> Result<(u64, usize, virtqueue::device::Dequeue), Fatal> {
    let dequeue = guest.driver.dequeue();
    let (mut calls, mut frames) = (0, 0);
    while dequeue.has_work() {
        frames += receive(&dequeue)?.len();
        calls += 1;
    }
    Ok((calls, frames, dequeue))
}

#[test]
#[cfg_attr(miri, ignore = "too many descriptors")]
fn long_chains_are_taken_one_by_one() {
    // Good and bad chains: each exceeds the budget of a call.
    for (last, good) in [(1, 20), (u32::MAX, 0)] {
        both(|mut guest| {
            let chain = table(&guest, MAX_CHAIN, (NET_HEADER, 1), 0);
            let end = guest.driver.area(TABLE) + 16 * u64::from(MAX_CHAIN - 1);
            guest.descriptor(end, (guest.driver.area(BUFFER), last, 0), 0);
            (0..20).for_each(|_| guest.offer(&chain));
            let (calls, frames, dequeue) = receive_all(&guest).unwrap();
            assert_eq!((calls, frames, dequeue.cut_short()), (20, good, 19));
            assert_eq!(dequeue.dropped().bad_buffer, 20 - good as u64);
        });
    }
}

#[test]
fn usual_frames_in_eight_pieces_are_a_burst() {
    both(|mut guest| {
        let chain = table(&guest, 8, (NET_HEADER, 20), 0);
        (0..2 * MAX_BURST).for_each(|_| guest.offer(&chain));
        let (calls, frames, dequeue) = receive_all(&guest).unwrap();
        assert_eq!((calls, frames, dequeue.cut_short()), (2, 2 * MAX_BURST, 0));
    });
}

#[test]
fn long_frames_make_shorter_bursts() {
    both(|mut guest| {
        let frame = |guest: &Guest, len: u32| [(guest.driver.area(0), len + NET_HEADER, 0)];
        let (usual, jumbo, longest) = (frame(&guest, 2048), frame(&guest, 9000), frame(&guest, 65_535));
        (0..MAX_BURST).for_each(|_| guest.offer(&usual));
        (0..8).for_each(|_| guest.offer(&jumbo));
        (0..2).for_each(|_| guest.offer(&longest));
        let dequeue = guest.driver.dequeue();
        // 64 KiB each, plus the excess of the last frame.
        let bursts: Vec<usize> = std::iter::from_fn(|| {
            let frames = receive(&dequeue).unwrap().len();
            (frames > 0).then_some(frames)
        })
        .collect();
        assert_eq!(bursts, [MAX_BURST, 8, 2]);
        assert_eq!(dequeue.cut_short(), 1);
    });
}

/// Frames into one-byte buffers: each call ends at its budget, and a frame that fits still arrives.
#[test]
#[cfg_attr(miri, ignore = "too many descriptors")]
fn buffers_of_one_byte_are_filled_up_to_the_budget() {
    both(|mut guest| {
        let enqueue = guest.driver.enqueue();
        let chain = table(&guest, MAX_CHAIN, (1, 1), WRITE);
        (0..100).for_each(|_| guest.offer(&chain));
        let frame = [0x5a; 1500];
        let frames = [&frame[..]; MAX_BURST];
        for _ in 0..3 {
            let done = transmit(&enqueue, &frames).unwrap();
            assert_eq!((done.frames, done.no_buffers, done.over_budget), (0, 0, MAX_BURST as u32));
        }
        // One chain holds this frame, and uses up the call's budget.
        let done = transmit(&enqueue, &[&frame[..1000]; 2]).unwrap();
        assert_eq!((done.frames, done.over_budget), (1, 1));
    });
}

#[test]
#[cfg_attr(miri, ignore = "too many descriptors")]
fn one_chain_of_the_longest_passes_each_time() {
    both(|mut guest| {
        let enqueue = guest.driver.enqueue();
        let chain = table(&guest, MAX_CHAIN, (NET_HEADER, 2), WRITE);
        (0..10).for_each(|_| guest.offer(&chain));
        for _ in 0..10 {
            let done = transmit(&enqueue, &[&[0x5a; 2000]]).unwrap();
            assert_eq!((done.frames, done.over_budget), (1, 0));
        }
    });
}

/// Returns unusable chains to the guest, no more per call than the budget allows.
#[test]
#[cfg_attr(miri, ignore = "too many descriptors")]
fn bad_chains_are_given_back_up_to_the_budget() {
    both(|mut guest| {
        let enqueue = guest.driver.enqueue();
        let chain = table(&guest, 64, (NET_HEADER, 100), 0);
        (0..RING - 1).for_each(|_| guest.offer(&chain));
        let mut before = 0;
        while before < u64::from(RING) - 1 {
            let done = transmit(&enqueue, &[&[0; 60][..]; 2]).unwrap();
            assert_eq!(done.frames, 0);
            let now = enqueue.dropped().bad_buffer;
            assert!(now > before && (now - before) * 64 <= 2 * BUDGET, "{} in one call", now - before);
            before = now;
        }
        guest.offer(&[(guest.driver.area(0), ROOM, WRITE)]);
        assert_eq!(transmit(&enqueue, &[&[0; 60]]).unwrap().frames, 1);
    });
}

/// Mergeable buffers of a usual size hold a burst of the longest frames: the sender's budget pays for the copy.
#[test]
#[cfg_attr(miri, ignore = "too many bytes")]
fn long_frames_in_usual_buffers_cost_nothing_extra() {
    for packed in [false, true] {
        let mut guest = Guest::sized(packed, 2048);
        let enqueue = guest.driver.enqueue();
        (0..2000).for_each(|_| guest.offer(&[(guest.driver.area(0), 2048, WRITE)]));
        let frame = vec![0x5a; 65_535];
        let done = transmit(&enqueue, &[&frame[..]; MAX_BURST]).unwrap();
        assert_eq!((done.frames, done.over_budget, done.no_buffers), (MAX_BURST as u32, 0, 0));
    }
}
