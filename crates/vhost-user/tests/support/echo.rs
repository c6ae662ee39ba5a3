//! A device that sends every frame back on the pair it came from.

use packet::BurstStorage;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use vhost_user::backend::{QueueSetup, Queues, Wire};
use virtqueue::device::{Dequeue, Enqueue};
use virtqueue::ordering::before_asking;
use virtqueue::{QueueConfig, SetupError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Connected,
    Started(usize, QueueConfig),
    Stopped(usize, u32),
    Rewired(usize, &'static str),
    Disconnected(String),
}

#[derive(Default)]
struct Pair {
    receive: Option<(Enqueue, Option<vhost_user::Event>)>,
    transmit: Option<(Dequeue, Option<vhost_user::Event>)>,
}

impl Pair {
    /// Echoes a burst; returns its length.
    fn forward(&mut self, storage: &mut BurstStorage) -> usize {
        let (Some((enqueue, rx_call)), Some((dequeue, tx_call))) = (&self.receive, &self.transmit) else {
            return 0;
        };
        let mut burst = storage.start();
        let taken = dequeue.receive(&mut burst).expect("the guest plays by the rules of the ring");
        if taken == 0 {
            return 0;
        }
        let sent = enqueue.transmit(burst.frames()).expect("the guest plays by the rules of the ring");
        assert_eq!(sent.frames as usize, burst.len(), "the guest posts enough buffers");
        dequeue.recycle();
        before_asking();
        if let (true, Some(call)) = (enqueue.wants_notification(), rx_call) {
            call.notify();
        }
        if let (true, Some(call)) = (dequeue.wants_notification(), tx_call) {
            call.notify();
        }
        taken
    }
}

pub struct Echo {
    pairs: Vec<Mutex<Pair>>,
    events: Mutex<VecDeque<Event>>,
    pub line: Mutex<String>,
    end: AtomicBool,
    /// Whether queues cannot be stopped, because somebody owns their buffers.
    pub held: AtomicBool,
    /// Whether a running queue's descriptors can be replaced.
    pub rewires: AtomicBool,
    /// Frames sent back so far.
    pub frames: AtomicU64,
    worker: Mutex<Option<JoinHandle<()>>>,
}

impl Echo {
    pub fn new(pairs: u16) -> Arc<Echo> {
        let echo = Arc::new(Echo {
            pairs: (0..pairs).map(|_| Mutex::default()).collect(),
            events: Mutex::default(),
            line: Mutex::default(),
            end: AtomicBool::new(false),
            held: AtomicBool::new(false),
            rewires: AtomicBool::new(false),
            frames: AtomicU64::new(0),
            worker: Mutex::default(),
        });
        let weak = Arc::downgrade(&echo);
        let worker = std::thread::spawn(move || {
            let mut storage = Box::<BurstStorage>::default();
            while let Some(echo) = weak.upgrade().filter(|e| !e.end.load(Ordering::Acquire)) {
                let mut idle = true;
                for pair in &echo.pairs {
                    let sent = Self::lock(pair, |pair| pair.forward(&mut storage));
                    echo.frames.fetch_add(sent as u64, Ordering::Relaxed);
                    idle &= sent == 0;
                }
                drop(echo);
                if idle {
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
        });
        *echo.worker.lock().unwrap() = Some(worker);
        echo
    }

    /// Ignores poisoning: a test that fails in here must not hide the messages of the others.
    fn lock<T>(pair: &Mutex<Pair>, then: impl FnOnce(&mut Pair) -> T) -> T {
        then(&mut pair.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn next_event(&self) -> Option<Event> {
        self.events.lock().unwrap().pop_front()
    }

    /// Discards the events so far.
    pub fn forget_events(&self) {
        self.events.lock().unwrap().clear();
    }

    /// Reads events until `wanted` returns a value.
    pub fn wait<T>(&self, what: &str, wanted: impl Fn(Event) -> Option<T>) -> T {
        super::wait_for(what, || std::iter::from_fn(|| self.next_event()).find_map(&wanted))
    }

    pub fn wait_started(&self, queue: usize) -> QueueConfig {
        self.wait("a queue to start", |e| match e {
            Event::Started(index, config) if index == queue => Some(config),
            _ => None,
        })
    }

    pub fn wait_disconnected(&self) -> String {
        let reason = self.wait("the session to end", |e| match e {
            Event::Disconnected(reason) => Some(reason),
            _ => None,
        });
        for pair in &self.pairs {
            let stopped = Self::lock(pair, |pair| pair.receive.is_none() && pair.transmit.is_none());
            assert!(stopped, "a queue outlived its session");
        }
        reason
    }

    pub fn wait_line(&self, part: &str) -> String {
        super::wait_for(part, || Some(self.line.lock().unwrap().clone()).filter(|line| line.contains(part)))
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Release);
        if let Some(worker) = self.worker.get_mut().unwrap().take()
            && worker.thread().id() != std::thread::current().id()
        {
            let done = worker.join();
            assert!(done.is_ok() || std::thread::panicking(), "the worker saw something wrong");
        }
    }
}

impl Queues for Echo {
    fn connected(&self) {
        self.events.lock().unwrap().push_back(Event::Connected);
    }

    fn start(&self, index: usize, setup: QueueSetup) -> Result<(), SetupError> {
        let QueueSetup { memory, config, call, .. } = setup;
        Self::lock(&self.pairs[index / 2], |pair| {
            if index.is_multiple_of(2) {
                assert!(pair.receive.is_none(), "queue {index} started twice");
                pair.receive = Some((Enqueue::new(memory, &config)?, call));
            } else {
                assert!(pair.transmit.is_none(), "queue {index} started twice");
                pair.transmit = Some((Dequeue::new(memory, &config)?, call));
            }
            Ok(())
        })?;
        self.events.lock().unwrap().push_back(Event::Started(index, config));
        Ok(())
    }

    fn stop(&self, index: usize) -> Result<Option<u32>, String> {
        let base = Self::lock(&self.pairs[index / 2], |pair| {
            if index.is_multiple_of(2) {
                pair.receive.take().map(|(queue, _)| queue.base())
            } else {
                pair.transmit.take().map(|(queue, _)| queue.base())
            }
        });
        let stopped = base.expect("only a running queue is stopped");
        if self.held.load(Ordering::Relaxed) {
            return Err("its buffers are out".into());
        }
        self.events.lock().unwrap().push_back(Event::Stopped(index, stopped));
        Ok(base)
    }

    fn rewire(&self, index: usize, wire: Wire) -> Result<(), Wire> {
        if !self.rewires.load(Ordering::Relaxed) {
            return Err(wire);
        }
        let name = match wire {
            Wire::Kick(_) => "kick",
            Wire::Call(call) => {
                Self::lock(&self.pairs[index / 2], |pair| match index % 2 {
                    0 => pair.receive.as_mut().expect("it runs").1 = call,
                    _ => pair.transmit.as_mut().expect("it runs").1 = call,
                });
                "call"
            }
        };
        self.events.lock().unwrap().push_back(Event::Rewired(index, name));
        Ok(())
    }

    fn disconnected(&self, reason: &str) {
        self.events.lock().unwrap().push_back(Event::Disconnected(reason.to_owned()));
    }

    fn describe(&self, line: String) {
        *self.line.lock().unwrap() = line;
    }
}
