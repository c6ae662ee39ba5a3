//! Guests with the most expensive rings, next to two honest ones. The switch is checked during the attack.

use e2e::live::{Attack, Live};
use e2e::virtio::rogue::{BUFFERS, F_NEXT, F_WRITE, HEADER, RX, Rogue, SIZE, TX};
use e2e::virtio::{Guest, Options};
use lab::millrace::config::*;

const F_INDIRECT: u16 = 4;

/// Longest descriptor table that is accepted.
const TABLE: u16 = 1024;

/// Connects the rogue and a guest, which sends to it, at the attacked ports.
fn scene() -> (Live, Rogue, Guest) {
    let live = Live::new(patched("a", "b"));
    let rogue = Rogue::connect(&live.home);
    let b = Options::new(live.home.socket("b")).connect().unwrap();
    live.millrace.wait_up(&["a", "b"]);
    (live, rogue, b)
}

/// Points each descriptor of a queue to the same longest table, of buffers like this one.
fn tables(rogue: &Rogue, queue: usize, len: u32, flags: u16) {
    let (table, buffer) = (BUFFERS, BUFFERS + u64::from(TABLE) * 16);
    for at in 0..TABLE {
        let next = if at + 1 < TABLE { F_NEXT } else { 0 };
        let tail = [(flags | next).to_le_bytes(), (at + 1).to_le_bytes()].concat();
        rogue.write(table + u64::from(at) * 16, &[&buffer.to_le_bytes()[..], &len.to_le_bytes(), &tail].concat());
    }
    (0..SIZE).for_each(|slot| rogue.describe(queue, slot, table, u32::from(TABLE) * 16, F_INDIRECT, 0));
}

/// Offers all descriptors of a queue that the rogue has.
fn offer_what_came_back(rogue: &mut Rogue, queue: usize) {
    while rogue.next[queue].wrapping_sub(rogue.used_index(queue)) < SIZE {
        rogue.offer(queue, rogue.next[queue] % SIZE);
    }
    rogue.publish(queue, rogue.next[queue]);
}

/// Sends as many frames as there is room for.
fn send(from: &mut Guest, len: usize) {
    let frame = vec![0x5a; len];
    from.reap().unwrap();
    while from.send(&[&frame], 1).unwrap() {}
    from.flush();
}

/// The rogue's receive buffers are too short for a header. It offers each again as soon as it is written as used, long before
/// the used index says so: there always is one more. It reconnects if it is disconnected for that.
#[test]
fn short_receive_buffers_offered_again_while_they_come_back() {
    const NOBODY: u32 = u32::MAX;
    const STEP: u16 = 32;
    let (live, rogue, mut b) = scene();
    let mut rogue = Some(rogue);
    let mut lives = 0;
    live.during(|attack: &Attack| {
        while attack.continues() {
            let mut guest = rogue.take().unwrap_or_else(|| Rogue::connect(&live.home));
            live.millrace.wait_up(&["a"]);
            (0..SIZE).for_each(|at| guest.set_used_id(RX, at, NOBODY));
            (0..SIZE).for_each(|slot| guest.describe(RX, slot, BUFFERS, HEADER - 1, F_WRITE, 0));
            offer_what_came_back(&mut guest, RX);
            let mut back = 0u16;
            while attack.continues() && guest.is_connected() {
                send(&mut b, 60);
                for _ in 0..20_000 {
                    // Chains come back in order: the last of a group stands for all of them.
                    let last = back.wrapping_add(STEP - 1) % SIZE;
                    if guest.used_id(RX, last) != NOBODY {
                        guest.set_used_id(RX, last, NOBODY);
                        back = back.wrapping_add(STEP);
                        guest.publish(RX, back.wrapping_add(SIZE));
                    }
                }
                attack.strike();
            }
            lives += 1;
            drop(guest);
            live.millrace.wait_down("a");
        }
    });
    println!("the rogue connected {lives} times");
    drop(b);
    live.finish();
}

/// The rogue sends nothing but bad descriptor tables of the greatest length.
#[test]
fn long_chains_of_bad_descriptors() {
    let (live, mut rogue, b) = scene();
    // From a good address beyond the end of its memory.
    tables(&rogue, TX, u32::MAX, 0);
    live.during(|attack| {
        while attack.continues() {
            let used = rogue.used_index(TX);
            offer_what_came_back(&mut rogue, TX);
            e2e::wait_for("chains to come back", || {
                (rogue.used_index(TX) != used || !attack.continues()).then_some(())
            });
            attack.strike();
        }
    });
    let port = live.millrace.port("a").0;
    assert!(port.cut_short > 0 && port.drops["bad-buffer"] > 0, "{port:?}");
    drop((rogue, b));
    live.millrace.wait_down("a");
    live.finish();
}

/// The rogue offers buffers of one byte only, in tables of the greatest length, for frames that need thousands of them.
#[test]
fn receive_buffers_of_one_byte() {
    let (live, mut rogue, mut b) = scene();
    tables(&rogue, RX, 1, F_WRITE);
    live.during(|attack| {
        while attack.continues() {
            offer_what_came_back(&mut rogue, RX);
            send(&mut b, 1500);
            attack.strike();
        }
    });
    let drops = live.millrace.port("a").0.drops;
    assert!(drops["budget"] > 0, "{drops:?}");
    drop((rogue, b));
    live.millrace.wait_down("a");
    live.finish();
}
