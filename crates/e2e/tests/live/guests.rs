//! Guests that attack the switch through their rings, next to two honest ones. The switch is checked during the attack.

use e2e::live::Live;
use e2e::virtio::rogue::{Rogue, SIZE, TX};
use lab::millrace::config::*;

/// Every chain is invalid, and is offered again as soon as it comes back.
#[test]
fn bad_buffers_without_end() {
    let live = Live::new(patched("a", "b"));
    let mut rogue = Rogue::connect(&live.home);
    live.millrace.wait_up(&["a"]);
    for slot in 0..SIZE {
        rogue.describe(TX, slot, 0x1000, 100, 0, 0);
    }
    live.during(|attack| {
        while attack.continues() {
            while rogue.next[TX].wrapping_sub(rogue.used_index(TX)) < SIZE {
                rogue.offer(TX, rogue.next[TX] % SIZE);
            }
            let used = rogue.used_index(TX);
            rogue.publish(TX, rogue.next[TX]);
            e2e::wait_for("chains to come back", || {
                (rogue.used_index(TX) != used || !attack.continues()).then_some(())
            });
            attack.strike();
        }
    });
    drop(rogue);
    live.millrace.wait_down("a");
    live.finish();
}
