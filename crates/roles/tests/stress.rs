//! More workers than processors, which stall, abandon and end at random: each batch is claimed once, and comes back once.
#![cfg(not(loom))]

use roles::{Outcome, Parent, Worker, share};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const BATCHES: usize = if cfg!(miri) { 200 } else { 20_000 };
const WORKERS: usize = 8;
const ROOM: usize = 8;
/// Looks at a batch that does not come back before the parent continues without it.
const PATIENCE: u32 = 20;
/// No batch takes as long, however busy the machine is.
const FAR: Duration = Duration::from_secs(120);

/// The fate of a batch, by its number.
#[derive(Default)]
struct Fate {
    claimed: AtomicU8,
    completed: AtomicU8,
    abandoned: AtomicU8,
}

/// The state that all threads share.
struct World {
    fates: Vec<Fate>,
    /// The parent wants nothing else but its batches back.
    is_over: AtomicBool,
}

/// Tells all workers that it is over, if the parent panics, too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn is_one_of(random: &mut u64, n: u64) -> bool {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    random.is_multiple_of(n)
}

/// Claims until it is over. The first worker holds its first claim until then; half of the others end before.
fn work(world: &World, mut worker: Worker<u64>, number: usize) {
    let mut random = 0x9e37_79b9_7f4a_7c15 ^ number as u64;
    let ends_early = number % 2 == 1;
    while !world.is_over.load(Ordering::Relaxed) {
        let Some(mut claim) = worker.claim() else {
            thread::yield_now();
            continue;
        };
        let sequence = claim.sequence();
        assert_eq!(*claim, 2 * sequence, "its content is the one that was published");
        *claim += 1;
        let fate = &world.fates[sequence as usize];
        fate.claimed.fetch_add(1, Ordering::Relaxed);
        while number == 0 && !world.is_over.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        if is_one_of(&mut random, 32) {
            (0..100).for_each(|_| thread::yield_now());
        }
        assert_eq!(*claim, 2 * sequence + 1, "nobody else changes it");
        if is_one_of(&mut random, 16) {
            fate.abandoned.fetch_add(1, Ordering::Relaxed);
            drop(claim);
        } else {
            fate.completed.fetch_add(1, Ordering::Relaxed);
            claim.complete();
        }
        if ends_early && is_one_of(&mut random, 200) {
            return;
        }
    }
}

/// The parent's account.
#[derive(Default)]
struct Account {
    returned: Vec<Option<Outcome>>,
    /// Number of the next batch that is released in order.
    front: u64,
    left_behind: Vec<u64>,
}

impl Account {
    fn release(&mut self, parent: &mut Parent<u64>) {
        parent.release(|batch, outcome| {
            let number = *batch / 2;
            assert_eq!(*batch % 2, 1, "what the worker wrote is there");
            match self.left_behind.iter().position(|left| *left == number) {
                Some(at) => _ = self.left_behind.remove(at),
                None => {
                    assert_eq!(number, self.front, "in order");
                    self.front += 1;
                }
            }
            let before = self.returned[number as usize].replace(outcome);
            assert_eq!(before, None, "a batch is released once");
        });
    }

    fn leave_behind(&mut self, number: u64) {
        assert_eq!(number, self.front);
        self.front += 1;
        self.left_behind.push(number);
    }
}

#[test]
fn each_batch_is_claimed_once_and_comes_back_once() {
    let world = World { fates: (0..BATCHES).map(|_| Fate::default()).collect(), is_over: AtomicBool::new(false) };
    let (mut parent, mut workers) = share(ROOM, WORKERS + 1, || 0);
    let mut own = workers.pop().unwrap();
    let mut account = Account { returned: vec![None; BATCHES], ..Account::default() };
    let mut end = Instant::now() + FAR;
    thread::scope(|scope| {
        let over = Over(&world.is_over);
        for (number, worker) in workers.into_iter().enumerate() {
            let world = &world;
            scope.spawn(move || work(world, worker, number));
        }
        let (mut published, mut waited) = (0, (None, 0));
        while published < BATCHES as u64 {
            assert!(Instant::now() < end, "{published} batches are published");
            match parent.free() {
                Some(mut batch) => {
                    *batch = 2 * published;
                    batch.publish();
                    published += 1;
                    end = Instant::now() + FAR;
                }
                None => thread::yield_now(),
            }
            account.release(&mut parent);
            let oldest = parent.oldest();
            waited = if oldest == waited.0 { (oldest, waited.1 + 1) } else { (oldest, 0) };
            if waited.1 >= PATIENCE
                && let Some(number) = oldest
                && parent.leave_behind()
            {
                account.leave_behind(number);
            }
            assert!(parent.outstanding() - parent.left_behind() <= ROOM, "bounded");
        }
        // Shutdown: the parent claims batches that others do not, and waits for those that they hold.
        drop(over);
        while let Some(claim) = own.claim() {
            let number = claim.sequence() as usize;
            world.fates[number].claimed.fetch_add(1, Ordering::Relaxed);
            world.fates[number].abandoned.fetch_add(1, Ordering::Relaxed);
            let mut claim = claim;
            *claim += 1;
        }
        while parent.outstanding() > 0 {
            assert!(Instant::now() < end, "{} batches did not come back", parent.outstanding());
            account.release(&mut parent);
            thread::yield_now();
        }
    });
    let late = account.returned.iter().filter(|outcome| **outcome == Some(Outcome::Late)).count();
    for (number, (fate, returned)) in world.fates.iter().zip(&account.returned).enumerate() {
        let [claimed, completed, abandoned] =
            [&fate.claimed, &fate.completed, &fate.abandoned].map(|count| count.load(Ordering::Relaxed));
        assert_eq!((claimed, completed + abandoned), (1, 1), "batch {number} is claimed once");
        match returned {
            Some(Outcome::Abandoned) => assert_eq!(abandoned, 1, "batch {number}"),
            Some(Outcome::Complete | Outcome::Late) => assert_eq!(completed, 1, "batch {number}"),
            None => panic!("batch {number} did not come back"),
        }
    }
    println!("{late} of {BATCHES} batches were late");
}
