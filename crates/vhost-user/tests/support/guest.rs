//! A guest that sends frames and checks those that come back.

use super::raw::Raw;
use rustix::fd::AsFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use vhost::vhost_user::message::FrontendReq;
use vhost_user::frontend::{DriverQueue, FrontendOptions, Link, QueueEnd};
use vhost_user::{Event, Mode};
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::{Arena, Region};
use virtqueue::{NET_HEADER, Negotiated, QueueConfig};

const SIZE: u16 = 64;
const BUFFER: u32 = 2048;

fn add(queue: &mut DriverQueue<u64>, addr: u64, len: u32, writable: bool) {
    queue.add_with(&[Buffer { addr, len, writable }], addr).expect("there is room");
}

struct Pair {
    /// The address of each chain's buffer.
    receive: DriverQueue<u64>,
    transmit: DriverQueue<u64>,
    free: Vec<u64>,
    sent: u32,
    received: u32,
}

pub struct Guest {
    arena: Arena,
    pairs: Vec<Pair>,
    /// Features and queues, if the guest sends them itself.
    said: (u64, Vec<QueueConfig>),
    pub link: Option<Link>,
}

impl Guest {
    /// Connects a guest through the library under test. `mode` is the device's.
    pub fn link(socket: &Path, mode: Mode, pairs: u16, features: u64) -> Guest {
        let mode = if mode == Mode::Server { Mode::Client } else { Mode::Server };
        let options = FrontendOptions {
            socket: socket.to_owned(),
            mode,
            queue_pairs: pairs,
            queue_sizes: SIZE.into(),
            features,
            exchange: None,
        };
        let mut arena = Arena::new(4 << 20, false).unwrap();
        let stop = AtomicBool::new(false);
        let (link, ends) = Link::establish(&options, &mut arena, Some(Duration::from_secs(120)), &stop).unwrap();
        assert!(link.negotiated().has(features), "everything wanted is offered");
        let ends = ends.into_iter().flat_map(|pair| [pair.receive, pair.transmit]).collect();
        Guest::new(arena, ends, Some(link))
    }

    /// Connects a guest that sends its messages in `order`, a permutation of the steps of [`Guest::STEPS`].
    pub fn raw(raw: &Raw, features: u64, order: &[usize]) -> Guest {
        let mut arena = Arena::new(4 << 20, false).unwrap();
        let mut configs = Vec::new();
        let mut ends = Vec::new();
        for _ in 0..2 {
            let config = Queue::layout(&mut arena, SIZE, Negotiated(features)).unwrap();
            ends.push(QueueEnd::create(Queue::new(&arena, &config).unwrap(), config).unwrap());
            configs.push(config);
        }
        let guest = Guest { said: (features, configs), ..Guest::new(arena, ends, None) };
        raw.send(FrontendReq::SET_OWNER, &[], &[]);
        for step in order {
            guest.say_again(raw, *step);
        }
        guest
    }

    /// Number of messages that a frontend sends before queues run.
    pub const STEPS: usize = 8;

    pub fn say_again(&self, raw: &Raw, step: usize) {
        let (features, configs) = &self.said;
        let ends = [&self.pairs[0].receive, &self.pairs[0].transmit];
        for ((queue, config), end) in (0u32..).zip(configs).zip(ends) {
            match step {
                0 if queue == 0 => raw.send_u64(FrontendReq::SET_FEATURES, *features),
                1 if queue == 0 => self.share(raw),
                2 => raw.send_state(FrontendReq::SET_VRING_NUM, queue, config.size.into()),
                3 => raw.send_state(FrontendReq::SET_VRING_BASE, queue, config.base),
                4 => raw.send_addr(queue, config.descriptors, config.driver, config.device),
                5 => raw.send_fd(FrontendReq::SET_VRING_KICK, queue.into(), end.kick()),
                6 => raw.send_fd(FrontendReq::SET_VRING_CALL, queue.into(), end.call()),
                7 => raw.send_state(FrontendReq::SET_VRING_ENABLE, queue, 1),
                _ => {}
            }
        }
    }

    /// Sends the memory table, for the first time or again.
    pub fn share(&self, raw: &Raw) {
        self.table().share(raw, 0);
    }

    pub fn table(&self) -> Table {
        Table(self.arena.memory().regions()[0].clone())
    }

    pub fn call(&self, queue: usize) -> &Event {
        let pair = &self.pairs[queue / 2];
        if queue.is_multiple_of(2) { pair.receive.call() } else { pair.transmit.call() }
    }

    fn new(mut arena: Arena, ends: Vec<QueueEnd>, link: Option<Link>) -> Guest {
        let mut ends = ends.into_iter().map(DriverQueue::new);
        let mut pairs = Vec::new();
        while let (Some(mut receive), Some(transmit)) = (ends.next(), ends.next()) {
            for _ in 0..SIZE {
                add(&mut receive, arena.allocate(BUFFER.into(), 64).unwrap(), BUFFER, true);
            }
            receive.flush();
            let free = (0..SIZE).map(|_| arena.allocate(BUFFER.into(), 64).unwrap()).collect();
            pairs.push(Pair { receive, transmit, free, sent: 0, received: 0 });
        }
        Guest { arena, pairs, said: (0, Vec::new()), link }
    }

    /// Sends `frames` on every pair and waits until all of them are back, in order and whole.
    pub fn exchange(&mut self, frames: u32) {
        let deadline = Instant::now() + Duration::from_secs(120);
        let goals: Vec<u32> = self.pairs.iter().map(|p| p.sent + frames).collect();
        while self.pairs.iter().zip(&goals).any(|(p, &goal)| p.received < goal) {
            for (number, goal) in goals.iter().enumerate() {
                self.send(number, *goal);
                self.receive(number);
            }
            let back = || self.pairs.iter().map(|p| p.received).collect::<Vec<_>>();
            assert!(Instant::now() < deadline, "sent up to {goals:?}, got back {:?}", back());
            lab::cpu::rest();
        }
    }

    fn send(&mut self, number: usize, goal: u32) {
        let pair = &mut self.pairs[number];
        while let Some(returned) = pair.transmit.pop().unwrap() {
            pair.free.push(*returned.entry);
        }
        // Never more in flight than there are buffers posted.
        let window = u32::from(SIZE) / 2;
        let before = pair.sent;
        while pair.sent < goal && pair.sent - pair.received < window {
            let Some(addr) = pair.free.pop() else { break };
            let frame = frame(number, pair.sent);
            let len = NET_HEADER + frame.len() as u32;
            let host = self.arena.host(addr, len.into()).unwrap().as_ptr();
            // SAFETY: `len` bytes of our arena, which the device does not write to: the buffer is free.
            unsafe {
                host.write_bytes(0, NET_HEADER as usize);
                host.add(NET_HEADER as usize).copy_from_nonoverlapping(frame.as_ptr(), frame.len());
            }
            add(&mut pair.transmit, addr, len, false);
            pair.sent += 1;
        }
        if pair.sent != before {
            pair.transmit.flush();
        }
    }

    fn receive(&mut self, number: usize) {
        let pair = &mut self.pairs[number];
        let mut any = false;
        while let Some(returned) = pair.receive.pop().unwrap() {
            let (addr, len) = (*returned.entry, returned.len);
            let expected = frame(number, pair.received);
            assert_eq!(len, NET_HEADER + expected.len() as u32);
            let mut found = vec![0; expected.len()];
            let host = self.arena.host(addr + u64::from(NET_HEADER), found.len() as u64).unwrap();
            // SAFETY: the buffer is ours again, and as long as that.
            unsafe { host.as_ptr().copy_to_nonoverlapping(found.as_mut_ptr(), found.len()) };
            assert_eq!(found, expected, "frame {} of pair {number}", pair.received);
            pair.received += 1;
            add(&mut pair.receive, addr, BUFFER, true);
            any = true;
        }
        if any {
            pair.receive.flush();
        }
    }
}

/// A guest's memory table.
pub struct Table(Region);

impl Table {
    /// Sends it, with `more` unused regions.
    pub fn share(&self, raw: &Raw, more: u64) {
        let region = &self.0;
        let place = [region.guest_addr, region.len, region.user_addr, region.offset];
        let unused = super::memfd(4096);
        let fds: Vec<_> = [region.file.as_fd()].into_iter().chain((0..more).map(|_| unused.as_fd())).collect();
        let places = (0..more).map(|number| [(1 << 40) + number * 4096, 4096, (1 << 41) + number * 4096, 0]);
        let table: Vec<_> = [place].into_iter().chain(places).collect();
        raw.send_table(&table, &fds);
    }
}

fn frame(pair: usize, sequence: u32) -> Vec<u8> {
    let len = 60 + sequence as usize * 37 % 1400;
    (0..len).map(|i| (i as u32).wrapping_mul(31).wrapping_add(sequence * 7 + pair as u32) as u8).collect()
}
