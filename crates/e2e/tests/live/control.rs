//! Frontends that keep the control side busy, next to two honest guests. The switch is checked meanwhile.

use e2e::live::Live;
use e2e::virtio::rogue::{BUFFERS, HEADER, LENGTH, RX, Rogue, SIZE, START, TX, available, descriptors, used};
use e2e::{Home, wait_for};
use lab::millrace::config::*;
use rustix::fd::AsRawFd;
use vhost::vhost_user::VhostUserFrontend;
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// Sets a memory table of `regions` regions, all but the first of them unused.
fn share(rogue: &Rogue, regions: u64) {
    let region = |number: u64| VhostUserMemoryRegionInfo {
        guest_phys_addr: START + number * (1 << 30),
        memory_size: LENGTH,
        userspace_addr: START + number * (1 << 30),
        mmap_offset: 0,
        mmap_handle: rogue.file.as_raw_fd(),
    };
    let table: Vec<_> = (0..regions).map(region).collect();
    rogue.frontend.set_mem_table(&table).unwrap();
}

/// Waits until all earlier messages have been handled.
fn settle(rogue: &Rogue) {
    rogue.frontend.get_features().unwrap();
}

fn rings(queue: usize, shift: u64) -> VringConfigData {
    VringConfigData {
        queue_max_size: SIZE,
        queue_size: SIZE,
        flags: 0,
        desc_table_addr: descriptors(queue) + shift,
        used_ring_addr: used(queue),
        avail_ring_addr: available(queue),
        log_addr: None,
    }
}

/// Lets a rogue at `a` send these messages endlessly.
fn besieged(mut say: impl FnMut(&mut Rogue) + Send) {
    let live = Live::new(patched("a", "b"));
    let mut rogue = Rogue::connect(&live.home);
    live.millrace.wait_up(&["a"]);
    live.during(|attack| {
        while attack.continues() {
            say(&mut rogue);
            settle(&rogue);
            attack.strike();
        }
    });
    drop(rogue);
    live.millrace.wait_down("a");
    live.finish();
}

#[test]
fn descriptors_are_replaced_without_end() {
    let event = EventFd::new(EFD_NONBLOCK).unwrap();
    besieged(|rogue| {
        for queue in [RX, TX] {
            rogue.frontend.set_vring_call(queue, &event).unwrap();
            rogue.frontend.set_vring_kick(queue, &event).unwrap();
        }
    });
}

#[test]
fn queues_are_moved_and_enabled_without_end() {
    besieged(|rogue| {
        for queue in [RX, TX] {
            rogue.frontend.set_vring_enable(queue, false).unwrap();
            rogue.frontend.set_vring_enable(queue, true).unwrap();
            for base in [1, 0] {
                rogue.frontend.set_vring_base(queue, base).unwrap();
            }
            for shift in [0x400, 0] {
                rogue.frontend.set_vring_addr(queue, &rings(queue, shift)).unwrap();
            }
        }
    });
}

#[test]
fn memory_is_shared_again_without_end() {
    besieged(|rogue| {
        for regions in [1, 1, 2, 1] {
            share(rogue, regions);
        }
    });
}

/// A queue uses its current descriptors: the new kick wakes a sleeping worker, and the new call notifies the guest.
#[test]
fn other_descriptors_are_the_ones_that_count() {
    let home = Home::new();
    let millrace = home.start((patched("a", "b"), sleeper()));
    let mut rogue = Rogue::connect(&home);
    millrace.wait_up(&["a"]);
    rogue.describe(TX, 0, BUFFERS, HEADER + 60, 0, 0);
    for _ in 0..20 {
        let [kick, call] = [(); 2].map(|()| EventFd::new(EFD_NONBLOCK).unwrap());
        rogue.frontend.set_vring_kick(TX, &kick).unwrap();
        rogue.frontend.set_vring_call(TX, &call).unwrap();
        settle(&rogue);
        let sleeps = || millrace.stats().workers[0].sleeps;
        let before = sleeps();
        // However it was woken, it checks the queue once more before it sleeps again.
        wait_for("the worker to sleep", || {
            (sleeps() > before || millrace.stats().workers[0].place == "asleep").then_some(())
        });
        // The new call was signalled, in case the old one missed a notification.
        call.read().unwrap();
        let goal = rogue.next[TX].wrapping_add(1);
        rogue.offer(TX, 0);
        rogue.publish(TX, goal);
        kick.write(1).unwrap();
        wait_for("the chain", || (rogue.used_index(TX) == goal).then_some(()));
        wait_for("the guest to be told of it", || call.read().ok());
    }
    millrace.stop();
}
