//! Receive queue mapping with a wire that has run out of buffers and sleeps until it is kicked.

use std::sync::{Arc, Mutex};

use e2e::mapped::one_wire;
use e2e::virtio::{Crafted, Ram};
use e2e::{Home, SOON, wait_for};
use lab::Result;
use lab::millrace::config::*;
use packet::{BurstStorage, Segment};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vhost_user::backend::{self, QueueSetup, Queues, Service};
use vhost_user::{Event, Mode};
use virtqueue::SetupError;
use virtqueue::device::Enqueue;
use virtqueue::ordering::before_asking;

const FRAME: [u8; 1000] = [0x5a; 1000];

/// Distance between the guest's buffers, in bytes.
const STEP: u64 = 2048;

/// The device behind a virtio-user port. It is passive: the test sends.
#[derive(Default)]
struct Device(Mutex<Option<Receiveq>>);

/// The queue that the switch receives from, on the device side.
struct Receiveq {
    ring: Enqueue,
    kick: Event,
    call: Event,
}

impl Queues for Device {
    fn connected(&self) {}

    fn start(&self, index: usize, setup: QueueSetup) -> std::result::Result<(), SetupError> {
        if index == 0 {
            let ring = Enqueue::new(setup.memory, &setup.config)?;
            let (kick, call) = (setup.kick.expect("a kick"), setup.call.expect("a call"));
            *self.0.lock().unwrap() = Some(Receiveq { ring, kick, call });
        }
        Ok(())
    }

    fn stop(&self, index: usize) -> std::result::Result<Option<u32>, String> {
        let stopped = if index == 0 { self.0.lock().unwrap().take() } else { None };
        Ok(Some(stopped.map_or(0, |queue| queue.ring.base())))
    }

    fn disconnected(&self, _: &str) {}

    fn describe(&self, _: String) {}
}

impl Device {
    /// Sends a frame; returns false if there is no buffer.
    fn send(&self) -> bool {
        let queue = self.0.lock().unwrap();
        let Some(Receiveq { ring, call, .. }) = &*queue else { return false };
        let mut storage = BurstStorage::default();
        let mut burst = storage.start();
        burst.push(Segment::from(&FRAME[..]));
        let sent = ring.transmit(burst.frames()).unwrap().frames;
        call.notify();
        sent > 0
    }

    /// Requests a kick, and clears earlier ones.
    fn sleep(&self) {
        let queue = self.0.lock().unwrap();
        let queue = queue.as_ref().expect("it runs");
        queue.ring.set_kicks(true);
        before_asking();
        queue.kick.clear();
    }

    /// Reports whether it was kicked in time.
    fn is_woken(&self) -> bool {
        let queue = self.0.lock().unwrap();
        let mut kick = [PollFd::new(&queue.as_ref().expect("it runs").kick, PollFlags::IN)];
        let timeout = Timespec { tv_sec: SOON.as_secs() as i64, tv_nsec: 0 };
        poll(&mut kick, Some(&timeout)).unwrap() > 0
    }
}

#[test]
fn a_device_is_kicked_for_buffers_without_frames() -> Result<()> {
    let home = Home::new();
    let device = Arc::new(Device::default());
    let options = backend::Options::new(home.socket("wan"), Mode::Server, 1);
    let service = Service::spawn(options, device.clone()).expect("a socket");
    let wan = virtio_user("wan", "wan.sock".as_ref());
    let millrace = home.start((wan, vhost_user("fw"), one_wire(), e2e::poller()));
    millrace.wait_up(&["wan"]);
    let ram = Ram::new(1 << 30, 64 * STEP);
    let mut guest = Crafted::connect(&home.socket("fw"), false, &[&ram]);
    wait_for("the mapping", || millrace.mapping().zero_copy.then_some(()));
    // Buffers that are lent, and buffers that are too short for that: then the switch offers its own instead.
    for (buffers, len) in [(10, 2048), (1, 2048), (10, 1500), (10, 2048), (1, 1500)] {
        // All of the device's buffers are used, and the guest has received the frames: nothing moves any more.
        while device.send() {}
        device.sleep();
        wait_for("what was sent", || {
            guest.receive(&[&ram]);
            (guest.posted().count() == 0).then_some(())
        });
        for buffer in 0..buffers {
            assert!(guest.post(ram.start() + buffer * STEP, len));
        }
        guest.publish();
        assert!(device.is_woken(), "{buffers} buffers of {len} bytes: {:?}", millrace.mapping());
        assert!(device.send(), "there is a buffer");
        let (bytes, _) = wait_for("the frame", || guest.receive(&[&ram]));
        assert!(bytes == FRAME);
    }
    millrace.stop();
    service.stop();
    Ok(())
}
