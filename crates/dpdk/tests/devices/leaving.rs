//! Frames that leave work to the device: DPDK's tap does it, in software of its own, and the kernel gets the frames behind it.

use crate::memory::Memory;
use crate::native::Library;
use crate::process::{alone, in_a_namespace};
use crate::rig::{CONFIG, Port, start, wait};
use dpdk::{Abilities, Config, Dpdk, ToSend, Work};
use std::ffi::{c_int, c_void};
use std::mem::transmute;

const IP4: usize = 20;
const IP6: usize = 40;
const TCP: usize = 20;
const UDP: usize = 8;

/// Bytes of a buffer to send from.
const BUFFER: usize = 2048;

/// Returns the sum of these bytes as RFC 1071 has it.
fn sum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let total =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum::<u32>();
    let folded = (total >> 16) + (total & 0xffff);
    ((folded >> 16) + (folded & 0xffff)) as u16
}

/// Returns the addresses of a packet.
fn addresses(frame: &[u8], is_v6: bool) -> &[u8] {
    if is_v6 { &frame[22..54] } else { &frame[26..34] }
}

/// Returns the sum of a packet's pseudo-header and of its transport.
fn transport_sum(frame: &[u8], is_v6: bool, is_udp: bool) -> u16 {
    let transport = &frame[14 + if is_v6 { IP6 } else { IP4 }..];
    sum(&[
        addresses(frame, is_v6),
        &[0, if is_udp { 17 } else { 6 }],
        &(transport.len() as u16).to_be_bytes(),
        transport,
    ])
}

/// Returns a frame whose transport checksum nobody computed.
fn unfinished(is_v6: bool, is_udp: bool, payload: usize) -> Vec<u8> {
    let len = payload + if is_udp { UDP } else { TCP };
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let protocol = if is_udp { 17 } else { 6 };
    if is_v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((len as u16).to_be_bytes());
        frame.extend([protocol, 64]);
        frame.extend((0..32).map(|at| 0xf0 | at));
    } else {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend(((IP4 + len) as u16).to_be_bytes());
        frame.extend([1, 0, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        let header = !sum(&[&frame[14..]]);
        frame[24..26].copy_from_slice(&header.to_be_bytes());
    }
    frame.extend([0x12, 0x34, 0x56, 0x78]);
    if is_udp {
        frame.extend((len as u16).to_be_bytes());
        frame.extend([0xaa, 0xbb]);
    } else {
        frame.extend([0, 0, 1, 0, 0, 0, 0, 9, 0x50, 0x18, 2, 0, 0xaa, 0xbb, 0, 0]);
    }
    frame.extend((0..payload).map(|at| (at * 7 + at / 256) as u8));
    frame
}

fn work(is_v6: bool, is_udp: bool, segment: u16) -> Work {
    let (network, transport) = (if is_v6 { IP6 } else { IP4 }, if is_udp { UDP } else { TCP });
    Work { link: 14, network: network as u16, transport: transport as u16, segment, is_v6, is_udp }
}

/// Puts a frame into the first buffers, so many bytes into each.
fn put(source: &Memory, bytes: &[u8], len: usize) -> Vec<ToSend> {
    let chunks = bytes.chunks(len);
    let count = chunks.len() as u32;
    let record = |(id, chunk): (u32, &[u8])| {
        source.write(source.addr(id), chunk);
        let record = ToSend::new(source.addr(id), chunk.len() as u16, id);
        if id + 1 < count { record.and_more() } else { record }
    };
    (0..).zip(chunks).map(record).collect()
}

/// A tap to which work is left, the kernel's side of it, and memory to send from.
struct Rig {
    tap: Port,
    kernel: Port,
    source: Memory,
    _region: dpdk::Region,
}

impl Rig {
    fn new(dpdk: &Dpdk) -> Rig {
        let work = Abilities { checksum: true, ..Abilities::default() };
        let tap = Port::open(dpdk, "net_tap0,iface=dtap0", &Config { work, ..CONFIG });
        assert_eq!(tap.device.info().abilities, work);
        tap.device.start().unwrap();
        let kernel = Port::started(dpdk, "net_af_packet0,iface=dtap0");
        assert_eq!(kernel.device.info().abilities, Abilities::default());
        let source = Memory::new(64, BUFFER);
        let region = source.share(&tap.device);
        Rig { tap, kernel, source, _region: region }
    }

    /// Returns the next frames that the kernel gets.
    fn received(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        wait("the frames", || {
            for received in self.kernel.burst() {
                all.push(self.kernel.own.read(received.addr, received.len));
                self.kernel.lend_own(&[received.id]);
            }
            all.len() >= count
        });
        assert_eq!(all.len(), count);
        all
    }
}

#[test]
fn checksums_are_finished() {
    in_a_namespace(|| {
        let dpdk = start();
        let mut rig = Rig::new(&dpdk);
        for (is_v6, is_udp) in [(false, false), (false, true), (true, false), (true, true)] {
            let frames = [0, 1, 777, 1400].map(|payload| unfinished(is_v6, is_udp, payload));
            // Each second one is complete as it is, whatever it says.
            let records = frames.iter().zip(0..).map(|(frame, id)| {
                rig.source.write(rig.source.addr(id), frame);
                let record = ToSend::new(rig.source.addr(id), frame.len() as u16, id);
                if id % 2 == 0 { record.and_work() } else { record }
            });
            let records: Vec<_> = records.collect();
            assert_eq!(rig.tap.transmit.send_work(&records, &[work(is_v6, is_udp, 0); 2]), 4);
            for (index, (mut got, sent)) in rig.received(4).into_iter().zip(frames).enumerate() {
                let field = 14 + if is_v6 { IP6 } else { IP4 } + if is_udp { 6 } else { 16 };
                if index % 2 == 0 {
                    assert_eq!(transport_sum(&got, is_v6, is_udp), 0xffff, "{is_v6} {is_udp}");
                    got[field..field + 2].copy_from_slice(&[0xaa, 0xbb]);
                }
                assert_eq!(got, sent);
            }
        }
        assert_eq!((rig.tap.transmit.counts().frames, rig.tap.transmit.counts().dropped), (16, 0));
    });
}

/// The fields of an mbuf that the plugin sets for a card: `struct told` of `card.c`.
#[repr(C)]
struct Told {
    flags: u64,
    len: u32,
    pieces: u16,
    lengths: [u16; 3],
    segment: u16,
    head: [u8; 128],
}

/// Flags of DPDK's mbufs.
const TCP_SEG: u64 = 1 << 50;
const TCP_CKSUM: u64 = 1 << 52;
const UDP_CKSUM: u64 = 3 << 52;
const IPV4: u64 = 1 << 55;
const IPV6: u64 = 1 << 56;

/// A card in the place of the first device.
struct Card(unsafe extern "C" fn(*mut Told) -> c_int);

impl Card {
    /// Puts it there, while the device runs.
    fn install() -> Card {
        let library = Library::built("card.c", "-lrte_ethdev -lrte_mbuf -lrte_mempool");
        let [install, next] = [c"card_install", c"card_next"].map(|name| library.symbol(name));
        // SAFETY: the functions have these forms.
        let (install, next) = unsafe {
            let install = transmute::<*mut c_void, unsafe extern "C" fn(u16)>(install);
            (install, transmute::<*mut c_void, unsafe extern "C" fn(*mut Told) -> c_int>(next))
        };
        // SAFETY: nobody uses the device meanwhile.
        unsafe { install(0) };
        Card(next)
    }

    /// Returns what it was told of the next frame.
    fn told(&self) -> Option<Told> {
        let mut told = Told { flags: 0, len: 0, pieces: 0, lengths: [0; 3], segment: 0, head: [0; 128] };
        // SAFETY: it fills `told`.
        (unsafe { (self.0)(&mut told) } != 0).then_some(told)
    }
}

/// A device with a card in its place, and memory to send from.
struct CardRig {
    port: Port,
    source: Memory,
    _region: dpdk::Region,
    card: Card,
}

impl CardRig {
    fn new(dpdk: &Dpdk) -> CardRig {
        let port = Port::started(dpdk, "net_null0");
        let source = Memory::new(64, BUFFER);
        let region = source.share(&port.device);
        CardRig { port, source, _region: region, card: Card::install() }
    }

    /// Sends a frame with this work, if there is some. Returns what the card was told of it, if it got it.
    fn send(&mut self, frame: &[u8], piece: usize, works: &[Work]) -> Option<Told> {
        let mut records = put(&self.source, frame, piece);
        if !works.is_empty() {
            records[0] = records[0].and_work();
        }
        assert_eq!(self.port.transmit.send_work(&records, works), records.len());
        assert_eq!(self.port.done().len(), records.len());
        self.card.told()
    }
}

#[test]
fn a_card_is_told_of_each_frame_what_it_has_to_do() {
    alone(|| {
        let dpdk = start();
        let mut rig = CardRig::new(&dpdk);
        for (is_v6, is_udp) in [(false, false), (false, true), (true, false), (true, true)] {
            let frame = unfinished(is_v6, is_udp, 700);
            let told = rig.send(&frame, BUFFER, &[work(is_v6, is_udp, 0)]).unwrap();
            let ip = if is_v6 { IPV6 } else { IPV4 };
            assert_eq!(told.flags, ip | if is_udp { UDP_CKSUM } else { TCP_CKSUM });
            let (network, transport) = if is_v6 { (IP6, &frame[14 + IP6..]) } else { (IP4, &frame[14 + IP4..]) };
            let header = if is_udp { UDP } else { TCP };
            assert_eq!((told.lengths, told.segment), ([14, network as u16, header as u16], 0));
            assert_eq!((told.len as usize, told.pieces), (frame.len(), 1));
            let (addresses, protocol) = (addresses(&frame, is_v6), if is_udp { 17 } else { 6 });
            let pseudo = sum(&[addresses, &[0, protocol], &(transport.len() as u16).to_be_bytes()]);
            let field = 14 + network + if is_udp { 6 } else { 16 };
            assert_eq!(told.head[field..field + 2], pseudo.to_be_bytes());
            let told = rig.send(&frame, BUFFER, &[]).unwrap();
            assert_eq!((told.flags, told.lengths, &told.head[..]), (0, [0; 3], &frame[..128]), "it is complete");
        }
    });
}

#[test]
fn a_card_is_told_of_messages() {
    alone(|| {
        let dpdk = start();
        let mut rig = CardRig::new(&dpdk);
        for is_v6 in [false, true] {
            let message = unfinished(is_v6, false, 20_000);
            let told = rig.send(&message, BUFFER, &[work(is_v6, false, 1400)]).unwrap();
            // This device has no flag for the checksum of IPv4 headers.
            assert_eq!(told.flags, TCP_SEG | if is_v6 { IPV6 } else { IPV4 });
            let network = if is_v6 { IP6 } else { IP4 };
            assert_eq!((told.lengths, told.segment), ([14, network as u16, TCP as u16], 1400));
            let pieces = message.len().div_ceil(BUFFER);
            assert_eq!((told.len as usize, usize::from(told.pieces)), (message.len(), pieces));
            // Without a length, as each segment has its own.
            let field = &told.head[14 + network + 16..][..2];
            assert_eq!(*field, sum(&[addresses(&message, is_v6), &[0, 6]]).to_be_bytes());
        }
        // Segments that are too long for the MTU; no two segments; more pieces than half of the ring.
        let message = unfinished(false, false, 3000);
        let most = rig.port.transmit.pieces();
        assert_eq!(most, rig.port.transmit.ring() / 2);
        let piece = message.len().div_ceil(most);
        let mut goes = |frame: &[u8], piece, segment| rig.send(frame, piece, &[work(false, false, segment)]).is_some();
        assert!(goes(&message, BUFFER, 1468) && !goes(&message, BUFFER, 1469));
        assert!(goes(&message[..1055], BUFFER, 1000) && !goes(&message[..1054], BUFFER, 1000));
        assert!(goes(&message, piece, 1000) && !goes(&message, piece - 1, 1000));
        assert_eq!(rig.port.transmit.counts().dropped, 3);
        // The queue is not told of the work.
        let record = put(&rig.source, &message[..100], BUFFER)[0].and_work();
        assert_eq!(rig.port.transmit.send_work(&[record], &[]), 0);
    });
}

#[test]
fn a_device_without_abilities_says_so() {
    alone(|| {
        let dpdk = start();
        for device in ["net_ring0", "net_null0"] {
            assert_eq!(dpdk.probe(device).unwrap().info().abilities, Abilities::default(), "{device}");
        }
    });
}
