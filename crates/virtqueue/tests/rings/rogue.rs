//! A guest that works while we do: it offers used chains again before they are published. Each call still ends, bounded
//! by the chains published when it began.

use crate::support::guest::{Guest, SIZE, WRITE, both};
use crate::support::{ROOM, lend, take_filled};
use packet::BurstStorage;
use virtqueue::Fatal;
use virtqueue::device::Landing;

/// All of the ring is on loan, and the guest claims that there is more.
#[test]
fn a_split_ring_that_claims_more_than_it_can_hold_ends_the_queue() {
    let mut guest = Guest::new(false);
    let enqueue = guest.driver.enqueue();
    let buffer = [(guest.driver.area(0), ROOM, WRITE)];
    (0..SIZE).for_each(|_| guest.offer(&buffer));
    let loans: Vec<_> = std::iter::from_fn(|| lend(&enqueue, ROOM, 0).unwrap()).collect();
    assert_eq!(loans.len(), SIZE.into());
    guest.offer(&buffer);
    assert_eq!(lend(&enqueue, ROOM, 0).err(), Some(Fatal::IndexJump { moved: SIZE + 1, size: SIZE }));
}

/// As above, after all loans were filled and delivered but not published.
#[test]
fn what_was_not_published_is_not_taken_again() {
    both(|mut guest| {
        let enqueue = guest.driver.enqueue();
        let buffer = [(guest.driver.area(0), ROOM, WRITE)];
        (0..SIZE).for_each(|_| guest.offer(&buffer));
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        while let Some(loan) = lend(&enqueue, ROOM, 0).unwrap() {
            assert!(take_filled(&enqueue, loan, Landing::whole(60), &mut burst).is_none());
        }
        assert_eq!(enqueue.transmit(burst.frames()).unwrap().frames, SIZE.into());
        // Offers the next lap.
        (0..SIZE).for_each(|_| guest.offer(&buffer));
        let lent = lend(&enqueue, ROOM, 0);
        if guest.packed {
            assert!(lent.unwrap().is_none());
        } else {
            assert_eq!(lent.err(), Some(Fatal::IndexJump { moved: 2 * SIZE, size: SIZE }));
        }
        enqueue.settle(|_| panic!("all were delivered"));
    });
}
