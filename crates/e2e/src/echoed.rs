//! Frames that a test sends to a NIC of a virtual machine, where a guest of the switch sends them back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::SOON;
use crate::guest::Link;
use crate::virtio::{Sink, Sizes, Source};
use lab::{Error, Result};

/// Maximum number of frames in flight.
const WINDOW: u64 = 64;

/// Frames sent at once to a guest that keeps them.
const BURST: usize = 16;

/// Time after which frames that have not come back are lost.
const LOST: Duration = Duration::from_millis(200);

/// Time between two looks at a flow.
const MOMENT: Duration = Duration::from_millis(2);

/// A stream of frames that come back; each is checked.
#[derive(Debug)]
pub struct Echoed {
    link: Link,
    source: Source,
    sink: Sink,
    /// Number of the first frame that may still come back.
    due: u64,
    /// When a frame was sent or came back last.
    last: Instant,
}

impl Echoed {
    /// Creates a stream with this number.
    pub fn new(link: Link, number: u8, sizes: Sizes) -> Self {
        let (source, sink) = (Source::new(number, number, sizes.clone()), Sink::new(number, number, sizes));
        Self { link, source, sink, due: 0, last: Instant::now() }
    }

    /// Sends frames and takes them back, all in their order.
    pub fn exchange(&mut self, frames: u64) -> Result<()> {
        self.settle()?;
        let (sent, received) = (self.due + frames, self.sink.received() + frames);
        while self.sink.received() < received {
            if self.source.sent() < sent && self.source.sent() - self.due < WINDOW {
                self.send()?;
            } else {
                self.receive()?;
            }
            if self.last.elapsed() > SOON {
                let problem = format!("{} of {frames} are missing", received - self.sink.received());
                return Err(Error::malformed("the exchange of frames", problem));
            }
        }
        Ok(())
    }

    /// Waits until all frames that a flow has left on their way are back or lost. Order is kept, so they are once one that was sent later is
    /// back.
    fn settle(&mut self) -> Result<()> {
        let began = Instant::now();
        while self.sink.due() < self.source.sent() {
            if self.last.elapsed() > LOST {
                self.send()?;
            }
            self.receive()?;
            if began.elapsed() > SOON {
                return Err(Error::malformed("the end of a flow", "no frame comes back".to_owned()));
            }
        }
        self.due = self.source.sent();
        Ok(())
    }

    /// Sends a frame or takes one back; gives up those that are lost.
    fn turn(&mut self) -> Result<()> {
        if self.last.elapsed() > LOST {
            self.due = self.source.sent();
        }
        if self.source.sent() - self.due < WINDOW { self.send() } else { self.receive() }
    }

    /// Sends frames to a guest that keeps them.
    fn feed_turn(&mut self) -> Result<()> {
        for _ in 0..BURST {
            self.send()?;
        }
        // The guest sends frames of its own.
        self.link.receive().map(drop)
    }

    /// Sends a frame, if there is room for it.
    fn send(&mut self) -> Result<()> {
        if !self.link.has_room()? {
            crate::rest();
            return Ok(());
        }
        self.last = Instant::now();
        self.link.send(&self.source.make())
    }

    fn receive(&mut self) -> Result<()> {
        if let Some(frame) = self.link.receive()? {
            self.sink.take(&frame)?;
            self.due = self.due.max(self.sink.due());
            self.last = Instant::now();
        }
        Ok(())
    }

    /// Goes on in a thread, with losses.
    pub fn flow(self) -> Flowing {
        self.spawn(Self::turn)
    }

    /// Sends on in a thread, to a guest that keeps the frames.
    pub fn feed(self) -> Flowing {
        self.spawn(Self::feed_turn)
    }

    fn spawn(mut self, turn: fn(&mut Self) -> Result<()>) -> Flowing {
        let stop = Arc::new(AtomicBool::new(false));
        let received = Arc::new(AtomicU64::new(self.sink.received()));
        let (stopped, counted) = (stop.clone(), received.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                turn(&mut self)?;
                counted.store(self.sink.received(), Ordering::Relaxed);
            }
            Ok(self)
        });
        Flowing { stop, received, thread: Some(thread) }
    }
}

/// A stream in a thread of its own, until it is stopped.
pub struct Flowing {
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<Echoed>>>,
}

impl Flowing {
    /// Waits until this many further frames have come back.
    pub fn wait(&mut self, frames: u64) -> Result<()> {
        let (began, goal) = (Instant::now(), self.received.load(Ordering::Relaxed) + frames);
        while self.received.load(Ordering::Relaxed) < goal {
            if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                return self.end().map(drop);
            }
            if began.elapsed() > SOON {
                return Err(Error::malformed(
                    "a flow of frames",
                    format!("fewer than {frames} came back within {SOON:?}"),
                ));
            }
            std::thread::sleep(MOMENT);
        }
        Ok(())
    }

    /// Stops it.
    pub fn stop(mut self) -> Result<Echoed> {
        self.end()
    }

    fn end(&mut self) -> Result<Echoed> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it runs").join().expect("it does not panic")
    }
}

impl Drop for Flowing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
