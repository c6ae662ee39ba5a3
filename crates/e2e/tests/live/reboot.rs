//! Guests that boot again, and keep their connections.

use e2e::live::Live;
use e2e::virtio::{Crafted, Guest, Options, Ram, Reset};
use e2e::wait_for;
use lab::millrace::config::*;
use virtqueue::NET_HEADER;

/// Offset of a frame to send from the start of a guest's memory, behind its buffers.
const FRAME: u64 = 1 << 15;

/// Returns a frame from one guest of the bridge to the other.
fn frame(to: u8, from: u8, content: u8) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5][..], &[content; 50]].concat()
}

/// Has the guests send a frame each way, which arrive whole.
fn talk(a: &mut Crafted, ram: &Ram, b: &mut Guest, content: u8) {
    assert!(a.post(ram.start(), 2048));
    a.publish();
    let to_a = frame(1, 2, content);
    assert!(b.send(&[&to_a], 1).unwrap());
    b.flush();
    let (received, _) = wait_for("a frame from b", || a.receive(&[ram]));
    assert_eq!(received, to_a);

    let to_b = frame(2, 1, content);
    ram.write(ram.start() + FRAME, &[vec![0; NET_HEADER as usize], to_b.clone()].concat());
    a.send(ram.start() + FRAME, NET_HEADER + to_b.len() as u32);
    let mut arrived = Vec::new();
    wait_for("a frame from a", || {
        let all = b.receive(1, |frame| {
            arrived = frame.to_vec();
            Ok(())
        });
        (all.unwrap() > 0).then_some(())
    });
    assert_eq!(arrived, to_b);
    wait_for("the sent buffer to come back", || (a.sending() == 0).then_some(()));
    b.reap().unwrap();
}

#[test]
fn a_guest_that_boots_again_keeps_its_port_and_gets_frames_again() {
    let live = Live::new((vhost_user("a"), vhost_user("b"), bridge("br0", ["a", "b"])));
    let mut b = Options::new(live.home.socket("b")).connect().unwrap();
    for (packed, reset) in
        [false, true].into_iter().flat_map(|packed| [Reset::None, Reset::Owner, Reset::Device].map(|it| (packed, it)))
    {
        let before = live.millrace.port("a");
        let mut ram = Ram::new(1 << 30, 1 << 16);
        let mut a = Crafted::connect(&live.home.socket("a"), packed, &[&ram]);
        live.millrace.wait_up(&["a", "b"]);
        talk(&mut a, &ram, &mut b, 0);
        for boot in 1..=3 {
            // This buffer is never filled.
            assert!(a.post(ram.start() + 2048, 2048));
            a.publish();
            let next = Ram::new((1 + boot) << 30, 1 << 16);
            a.reboot(reset, &[&next]);
            let then = ram.snapshot();
            talk(&mut a, &next, &mut b, boot as u8);
            assert!(ram.snapshot() == then, "{reset:?}: something was written to memory from before the boot");
            ram = next;
        }
        live.millrace.counted("a", before.rx() + 4, before.tx() + 4);
        drop(a);
        live.millrace.wait_gone("a");
    }
    live.finish();
}
