//! Receive queue mapping and the guest's memory: only frames and virtio headers are written to it, and only where they may
//! be.

use std::time::Instant;

use e2e::virtio::Guest;
use e2e::virtio::{Back, Crafted, Ram};
use e2e::wire::{KINDS, Kind, Scene};
use e2e::{SOON, wait_for};
use lab::Result;
use virtqueue::NET_HEADER;

/// Memory of the buffers: 101 slots whose length is no power of two.
const MEMORY: u64 = 64 * 4096;
const SLOTS: u64 = 101;

/// Slots to send from; the others are received into.
const SENDERS: u64 = 5;

/// Returns the length of the shortest buffer that is lent.
fn shortest(kind: Kind) -> u64 {
    let frame = match kind {
        Kind::VirtioUser | Kind::AfXdp => 1518,
        Kind::Dpdk => 2036,
    };
    u64::from(NET_HEADER) + frame
}

/// Rounds, and frames in each.
const ROUNDS: usize = 60;
const FRAMES: usize = 12;

/// Repeatable random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) ^ (x >> 31)
    }

    fn within(&mut self, range: std::ops::RangeInclusive<u64>) -> u64 {
        range.start() + (self.next() >> 8) % (range.end() - range.start() + 1)
    }

    fn bytes(&mut self, len: u64) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// Returns the first address of a slot; for the slot after the last one, the end of the memory.
fn slot(ram: &Ram, number: u64) -> u64 {
    ram.start() + number * ram.size() / SLOTS
}

/// Posts a buffer in a slot: at any offset, with any length that is lent, or one that is too short for that. At the edges of
/// the memory, the buffer reaches the edge.
fn post(kind: Kind, guest: &mut Crafted, ram: &Ram, number: u64, random: &mut Random) {
    let lent = shortest(kind);
    let (start, end) = (slot(ram, number), slot(ram, number + 1));
    let len = match random.within(0..=9) {
        // Never the very first one: with it in front nothing is lent until a frame comes.
        0 if number > 0 => random.within(300..=lent - 1),
        1..=3 => lent,
        _ => random.within(lent..=end - start),
    };
    let at = match number {
        0 => start,
        _ if number == SLOTS - 1 => end - len,
        _ => random.within(start..=end - len),
    };
    assert!(guest.post(at, len as u32));
}

fn slot_of(ram: &Ram, addr: u64) -> u64 {
    (0..SLOTS).rev().find(|&number| slot(ram, number) <= addr).expect("an address in the memory")
}

/// A snapshot of the memory for later comparison.
struct Before {
    ram: Vec<u8>,
    rings: Vec<u8>,
}

impl Before {
    fn of(guest: &Crafted, ram: &Ram) -> Before {
        Before { ram: ram.snapshot(), rings: guest.around_rings() }
    }

    /// Checks that only the rings and these (address, length) ranges have changed since.
    fn check(mut self, guest: &Crafted, ram: &Ram, written: impl Iterator<Item = (u64, u32)>) {
        let mut now = Before::of(guest, ram);
        for (addr, len) in written {
            let at = ram.place(addr);
            for bytes in [&mut self.ram, &mut now.ram] {
                bytes[at..at + len as usize].fill(0);
            }
        }
        let stray = self.ram.iter().zip(&now.ram).position(|(before, now)| before != now);
        assert_eq!(stray, None, "a byte that no frame belongs to was written, at this place of the memory's file");
        assert!(self.rings == now.rings, "something was written between the rings");
    }
}

fn send(far: &mut Guest, frame: &[u8]) -> Result<()> {
    let began = Instant::now();
    while !far.send(&[frame], 1)? {
        assert!(began.elapsed() < SOON, "the wire takes no frames");
        far.reap()?;
    }
    far.flush();
    Ok(())
}

/// Exchanges frames both ways, and checks that each frame, and nothing else, is in its place. Some are too long to arrive.
fn round(kind: Kind, guest: &mut Crafted, ram: &Ram, far: &mut Guest, random: &mut Random) -> Result<()> {
    // Longer than the MTU with a VLAN tag, which the kernel refuses; or longer than all buffers, which the wire refuses.
    let too_long = if kind == Kind::VirtioUser { 2600 } else { 1519 };
    let out: Vec<(u64, Vec<u8>)> = (0..SENDERS)
        .map(|number| {
            let len = random.within(60..=1514);
            (slot(ram, number * SLOTS / SENDERS + 1), random.bytes(len))
        })
        .collect();
    for (addr, frame) in &out {
        ram.write(*addr, &[&[0; NET_HEADER as usize][..], frame].concat());
    }
    let before = Before::of(guest, ram);
    // The switch may write headers of posted buffers, to find out whether the backend of a virtio-user port does.
    let headers = guest.posted().filter(|_| kind == Kind::VirtioUser).map(|(addr, _)| (addr, NET_HEADER));
    let headers: Vec<_> = headers.collect();
    let mut expected = Vec::new();
    for number in 0..FRAMES {
        let long = number % 4 == 3;
        let len = if long { random.within(too_long..=2990) } else { random.within(60..=1518) };
        let frame = random.bytes(len);
        send(far, &frame)?;
        if !long {
            expected.push(frame);
        }
    }
    for (addr, frame) in &out {
        guest.send(*addr, NET_HEADER + frame.len() as u32);
    }
    let mut written: Vec<Back> = Vec::new();
    for frame in expected {
        let (bytes, buffers) = wait_for("a frame", || guest.receive(&[ram]));
        assert!(bytes == frame, "another frame, or not whole: {} bytes for {}", bytes.len(), frame.len());
        written.extend(buffers);
    }
    let mut sent = out.iter();
    while sent.len() > 0 {
        let mut arrived = Vec::new();
        wait_for("what the guest sent", || {
            let any = far.receive(8, |frame| {
                arrived.push(frame.to_vec());
                Ok(())
            });
            (any.unwrap() > 0).then_some(())
        });
        arrived.iter().for_each(|frame| assert!(Some(frame) == sent.next().map(|(_, frame)| frame)));
    }
    wait_for("the chains that were sent", || (guest.sending() == 0).then_some(()));
    assert!(guest.take().is_none(), "a frame that nobody sent");
    before.check(guest, ram, written.iter().map(|back| (back.addr, back.len)).chain(headers));
    for back in written {
        post(kind, guest, ram, slot_of(ram, back.addr), random);
    }
    guest.publish();
    Ok(())
}

/// The interface accepts longer frames for a moment, before the switch notices.
fn longer_than_buffers(
    scene: &Scene,
    guest: &mut Crafted,
    ram: &Ram,
    far: &mut Guest,
    random: &mut Random,
) -> Result<()> {
    let Some(cable) = &scene.cable else { return Ok(()) };
    let posted: Vec<_> = guest.posted().collect();
    let before = Before::of(guest, ram);
    cable.here.run("ip", &["link", "set", "up0", "mtu", "3000"])?;
    for _ in 0..64 {
        let len = random.within(1519..=2990);
        send(far, &random.bytes(len))?;
    }
    wait_for("the switch to see it", || scene.millrace.mapping().reason.filter(|reason| reason.contains("MTU")));
    wait_for("the wire to have sent all", || (far.reap().unwrap() == 0).then_some(()));
    before.check(guest, ram, posted.into_iter());
    Ok(())
}

#[test]
fn only_frames_are_written_and_only_where_they_may_be() -> Result<()> {
    for kind in KINDS {
        for packed in [false, true] {
            let scene = Scene::new(kind)?;
            let random = &mut Random(u64::from(packed));
            let ram = Ram::new(1 << 30, MEMORY);
            // So that anything written differs from the old content.
            ram.write(ram.start(), &random.bytes(MEMORY));
            let mut guest = Crafted::connect(&scene.home.socket("fw"), packed, &[&ram]);
            let senders: Vec<u64> = (0..SENDERS).map(|number| number * SLOTS / SENDERS + 1).collect();
            let slots = (0..SLOTS).filter(|number| !senders.contains(number));
            slots.for_each(|number| post(kind, &mut guest, &ram, number, random));
            guest.publish();
            let mut far = scene.wire.guest("far")?;
            wait_for("the mapping", || (scene.millrace.mapping().on_loan > 0).then_some(()));
            for _ in 0..ROUNDS {
                round(kind, &mut guest, &ram, &mut far, random)?;
            }
            let mapping = scene.millrace.mapping();
            let frames = (ROUNDS * FRAMES) as u64;
            assert!(mapping.in_place > frames / 4 && mapping.copied > 0, "{kind:?}: {mapping:?}");
            assert!(mapping.sent_in_place > 0, "{kind:?}: {mapping:?}");
            if kind == Kind::AfXdp {
                longer_than_buffers(&scene, &mut guest, &ram, &mut far, random)?;
            }
            scene.millrace.stop();
        }
    }
    Ok(())
}
