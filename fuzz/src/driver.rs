//! A hostile device against the driver side of a queue.

use crate::backend::{Backend, Move, Setup, with_arena};
use arbitrary::Arbitrary;
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::Arena;
use virtqueue::ordering;

#[derive(Arbitrary, Debug)]
pub enum Step {
    Add(Vec<(u32, bool)>),
    Publish,
    Pop,
    Kick,
    Interrupts(bool),
    HasUsed,
    Device(Move),
}

pub fn run(setup: &Setup, steps: &[Step]) {
    with_arena(|arena| {
        let config = setup.config(false);
        let Ok(queue) = Queue::new(arena, &config) else { return };
        let backend = Backend::new(arena.memory(), config);
        let mut rig = Rig { queue, size: config.size, outstanding: Vec::new(), backend };
        for step in steps {
            if !rig.make(step) {
                return;
            }
        }
    });
}

/// The queue and the expected state.
struct Rig<'a> {
    queue: Queue,
    size: u16,
    /// Id and descriptors of each chain that the driver has not got back.
    outstanding: Vec<(u16, u16)>,
    backend: Backend<'a>,
}

impl Rig<'_> {
    /// Makes one step; returns false when the queue has ended.
    fn make(&mut self, step: &Step) -> bool {
        match step {
            Step::Add(buffers) => {
                let buffer = |&(len, writable)| Buffer { addr: Arena::BASE, len, writable };
                let buffers: Vec<_> = buffers.iter().take(80).map(buffer).collect();
                let fits = !buffers.is_empty() && buffers.len() <= usize::from(self.queue.free());
                let added = self.queue.add(&buffers);
                assert_eq!(added.is_some(), fits);
                self.outstanding.extend(added.map(|id| (id, buffers.len() as u16)));
            }
            Step::Publish => self.queue.publish(),
            Step::Pop => match self.queue.pop_used() {
                Ok(None) => {}
                Ok(Some(used)) => {
                    let found = self.outstanding.iter().position(|o| o.0 == used.id);
                    self.outstanding.remove(found.expect("only what the device has comes back"));
                    let with_device: u16 = self.outstanding.iter().map(|o| o.1).sum();
                    assert_eq!(self.queue.free(), self.size - with_device);
                }
                Err(_) => return false,
            },
            Step::Kick => {
                ordering::before_asking();
                self.queue.wants_kick();
                assert!(!self.queue.wants_kick(), "once is enough");
            }
            Step::Interrupts(wanted) => self.queue.set_interrupts(*wanted),
            Step::HasUsed => {
                self.queue.has_used();
            }
            Step::Device(step) => self.backend.make(step),
        }
        true
    }
}
