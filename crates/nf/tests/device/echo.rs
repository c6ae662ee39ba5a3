//! A vhost-user device that sends back all frames it receives, or collects them.

use packet::BurstStorage;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use vhost_user::Mode;
use vhost_user::backend::{Options, QueueSetup, Queues, Service};
use virtqueue::device::{Dequeue, Enqueue};
use virtqueue::{SetupError, ordering};

/// Leaves the processor to others. A thread that only yields stays runnable, and keeps those that wake up waiting.
pub fn rest() {
    std::thread::sleep(Duration::from_micros(20));
}

/// A queue, and its call.
struct Running<Q>(Q, Option<vhost_user::Event>);

#[derive(Default)]
struct Pair {
    to: Option<Running<Enqueue>>,
    from: Option<Running<Dequeue>>,
}

impl Pair {
    /// Sends back as many received frames as there is room for.
    fn turn(&self, shared: &Shared, storage: &mut BurstStorage) {
        let (Some(Running(to, to_call)), Some(Running(from, from_call))) = (&self.to, &self.from) else { return };
        let mut burst = storage.start();
        if from.receive(&mut burst).unwrap() == 0 {
            return;
        }
        let longest = burst.frames().as_slice().iter().map(|frame| frame.len()).max().unwrap_or(0);
        shared.longest.fetch_max(longest, Ordering::Relaxed);
        if shared.collects {
            let frames = burst.frames();
            let bytes = frames.as_slice().iter().map(|frame| {
                let mut bytes = vec![0; frame.len() as usize];
                frames.copy_to(frame, &mut bytes);
                bytes
            });
            shared.collected.lock().unwrap().extend(bytes);
        } else {
            to.transmit(burst.frames()).unwrap();
        }
        from.recycle();
        ordering::before_asking();
        for (wanted, call) in [(to.wants_notification(), to_call), (from.wants_notification(), from_call)] {
            if let (true, Some(call)) = (wanted, call) {
                call.notify();
            }
        }
    }
}

#[derive(Default)]
struct Shared {
    pairs: Mutex<Vec<Pair>>,
    /// Stops sending back while set.
    pause: AtomicBool,
    stop: AtomicBool,
    /// Bytes of the longest frame that was sent back.
    longest: AtomicU32,
    /// Whether frames are collected, and not sent back.
    collects: bool,
    collected: Mutex<Vec<Vec<u8>>>,
}

impl Queues for Shared {
    fn connected(&self) {}

    fn start(&self, index: usize, setup: QueueSetup) -> Result<(), SetupError> {
        let mut pairs = self.pairs.lock().unwrap();
        if pairs.len() <= index / 2 {
            pairs.resize_with(index / 2 + 1, Pair::default);
        }
        let pair = &mut pairs[index / 2];
        if index.is_multiple_of(2) {
            let queue = Enqueue::new(setup.memory, &setup.config)?;
            queue.set_kicks(false);
            pair.to = Some(Running(queue, setup.call));
        } else {
            let queue = Dequeue::new(setup.memory, &setup.config)?;
            queue.set_kicks(false);
            pair.from = Some(Running(queue, setup.call));
        }
        Ok(())
    }

    fn stop(&self, index: usize) -> Result<Option<u32>, String> {
        let mut pairs = self.pairs.lock().unwrap();
        let pair = &mut pairs[index / 2];
        let from = index % 2 == 1;
        Ok(if from { pair.from.take().map(|q| q.0.base()) } else { pair.to.take().map(|q| q.0.base()) })
    }

    fn disconnected(&self, _: &str) {}

    fn describe(&self, _: String) {}
}

/// The device; dropping it closes the connection and removes the socket.
pub struct Echo {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    service: Option<Service>,
}

impl Echo {
    pub fn new(socket: &Path, mode: Mode, queue_pairs: u16) -> Echo {
        Self::start(socket, mode, queue_pairs, Shared::default())
    }

    /// A device that keeps received frames.
    pub fn collecting(socket: &Path, mode: Mode, queue_pairs: u16) -> Echo {
        Self::start(socket, mode, queue_pairs, Shared { collects: true, ..Shared::default() })
    }

    fn start(socket: &Path, mode: Mode, queue_pairs: u16, shared: Shared) -> Echo {
        let shared = Arc::new(shared);
        let options = Options::new(socket, mode, queue_pairs);
        let service = Service::spawn(options, shared.clone()).unwrap();
        let worker = shared.clone();
        let thread = std::thread::spawn(move || {
            let mut storage = BurstStorage::default();
            while !worker.stop.load(Ordering::Relaxed) {
                if worker.pause.load(Ordering::Relaxed) {
                    rest();
                    continue;
                }
                worker.pairs.lock().unwrap().iter().for_each(|pair| pair.turn(&worker, &mut storage));
                rest();
            }
        });
        Echo { shared, thread: Some(thread), service: Some(service) }
    }

    /// Stops or resumes sending back.
    pub fn pause(&self, pause: bool) {
        self.shared.pause.store(pause, Ordering::Relaxed);
        // Wait until the device thread has finished its turn.
        drop(self.shared.pairs.lock().unwrap());
    }
}

impl Echo {
    /// Bytes of the longest frame that was sent back.
    pub fn longest(&self) -> u32 {
        self.shared.longest.load(Ordering::Relaxed)
    }

    /// Sends a new frame from the device by the first queue; returns true if there was room for it.
    pub fn inject(&self, bytes: &[u8]) -> bool {
        self.inject_at(0, bytes)
    }

    /// Sends a new frame from the device by this queue; returns true if it is there, and had room.
    pub fn inject_at(&self, queue: usize, bytes: &[u8]) -> bool {
        let mut storage = BurstStorage::default();
        let mut burst = storage.start();
        burst.push(bytes.into());
        let pairs = self.shared.pairs.lock().unwrap();
        let Some(Running(queue, call)) = pairs.get(queue).and_then(|pair| pair.to.as_ref()) else { return false };
        let sent = queue.transmit(burst.frames()).unwrap().frames == 1;
        ordering::before_asking();
        if let (true, Some(call)) = (queue.wants_notification(), call) {
            call.notify();
        }
        sent
    }

    /// Returns the frames that were collected since the last call.
    pub fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.shared.collected.lock().unwrap())
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let outcome = thread.join();
            assert!(outcome.is_ok() || std::thread::panicking(), "the device panicked");
        }
        drop(self.service.take());
    }
}
