//! The program that runs for each frame: redirects it to a socket, or passes it to the kernel.

use super::assembler::Register::{self, *};
use super::assembler::{Assembler, Instruction, Label, When, Width};

/// Group-addressed frames that go to the sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Groups {
    /// None.
    None,
    /// Broadcast frames.
    #[default]
    Broadcast,
    /// Broadcast and multicast frames.
    All,
}

/// Frames that go to the sockets. Others go to the kernel, as do those of queues without a socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Steering {
    /// All.
    #[default]
    All,
    /// Frames to certain destinations.
    Destinations {
        /// MAC addresses; at most [`Steering::MOST_MACS`], as each frame is compared with each.
        macs: Vec<[u8; 6]>,
        /// Frames to groups, in addition to the above addresses.
        groups: Groups,
    },
}

impl Steering {
    /// Maximum number of MAC addresses.
    pub const MOST_MACS: usize = 64;
}

/// `XDP_PASS` of linux/bpf.h: the verdict on a frame without a socket.
pub(super) const PASS: i32 = 2;
/// `XDP_DROP`.
const DROP: i32 = 1;
/// `BPF_FUNC_map_lookup_elem`, `BPF_FUNC_xdp_adjust_head` and `BPF_FUNC_redirect_map`.
const LOOK_UP: i32 = 1;
const ADJUST_HEAD: i32 = 44;
const REDIRECT_MAP: i32 = 51;

// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const RX_QUEUE_INDEX: i16 = 16;

/// The length of a VLAN tag, and of the two addresses before it.
const TAG: i16 = 4;
const ADDRESSES: i16 = 12;

/// Assembles the program; `map` is the file descriptor of the sockets' map. With `read_tag`, the number of the kernel's function that
/// reads the VLAN tag beside a frame, it puts the tag back into frames for sockets.
pub(super) fn redirect(steering: &Steering, map: i32, read_tag: Option<i32>) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    let (hit, pass) = (asm.label(), asm.label());
    if let Steering::Destinations { macs, groups } = steering {
        if macs.is_empty() && *groups == Groups::None {
            // The verifier refuses unreachable instructions.
            asm.set(R0, PASS);
            asm.exit();
            return asm.finish();
        }
        asm.load(Width::Word, R2, R1, DATA);
        asm.load(Width::Word, R3, R1, DATA_END);
        asm.copy(R4, R2);
        asm.add(R4, size_of::<[u8; 6]>() as i32);
        asm.jump_if_greater(R4, R3, pass);
        if *groups == Groups::All {
            // The first bit on the wire, the lowest of the first byte, marks a group address.
            asm.load(Width::Byte, R4, R2, 0);
            asm.jump_if(When::AnyBit, R4, 1, hit);
        }
        asm.load(Width::Word, R4, R2, 0);
        asm.load(Width::Half, R5, R2, 4);
        let broadcast = (*groups == Groups::Broadcast).then_some(&[0xff; 6]);
        for [a, b, c, d, e, f] in macs.iter().chain(broadcast) {
            let next = asm.label();
            asm.jump_if(When::NotEqual, R4, u32::from_ne_bytes([*a, *b, *c, *d]), next);
            asm.jump_if(When::Equal, R5, u16::from_ne_bytes([*e, *f]).into(), hit);
            asm.place(next);
        }
    }
    if *steering != Steering::All || read_tag.is_some() {
        if *steering == Steering::All {
            asm.jump(hit);
        }
        asm.place(pass);
        asm.set(R0, PASS);
        asm.exit();
    }
    asm.place(hit);
    match read_tag {
        None => redirect_to_socket(&mut asm, R1, map, PASS),
        Some(read_tag) => {
            let drop = asm.label();
            asm.copy(R6, R1);
            pass_without_socket(&mut asm, map, pass);
            insert_tag(&mut asm, read_tag, drop);
            // The frame is not as it was: the kernel would find a second tag.
            redirect_to_socket(&mut asm, R6, map, DROP);
            asm.place(drop);
            asm.set(R0, DROP);
            asm.exit();
        }
    }
    asm.finish()
}

/// Redirects the frame to the socket of its queue; `fallback` is the verdict if there is none.
fn redirect_to_socket(asm: &mut Assembler, context: Register, map: i32, fallback: i32) {
    asm.load(Width::Word, R2, context, RX_QUEUE_INDEX);
    asm.load_map(R1, map);
    asm.set(R3, fallback);
    asm.call(REDIRECT_MAP);
    asm.exit();
}

/// Goes to `pass` if the frame's queue has no socket. The context is in R6.
fn pass_without_socket(asm: &mut Assembler, map: i32, pass: Label) {
    const KEY: i16 = -8;
    asm.load(Width::Word, R2, R6, RX_QUEUE_INDEX);
    asm.store(Width::Word, R10, KEY, R2);
    asm.load_map(R1, map);
    asm.copy(R2, R10);
    asm.add(R2, KEY.into());
    asm.call(LOOK_UP);
    asm.jump_if_null(R0, pass);
}

/// Puts the tag beside the frame, if there is one, after its addresses. Goes to `drop` if there is no room. The context is in R6.
fn insert_tag(asm: &mut Assembler, read_tag: i32, drop: Label) {
    const PROTOCOL: i16 = -4;
    const CONTROL: i16 = -2;
    let done = asm.label();
    asm.clear_word(R10, PROTOCOL);
    asm.copy(R1, R6);
    asm.copy(R2, R10);
    asm.add(R2, PROTOCOL.into());
    asm.copy(R3, R10);
    asm.add(R3, CONTROL.into());
    // Returns an error if there is none, or if the driver cannot tell.
    asm.call_kernel(read_tag);
    asm.jump_if(When::NotEqual, R0, 0, done);
    asm.copy(R1, R6);
    asm.set(R2, (-TAG).into());
    asm.call(ADJUST_HEAD);
    asm.jump_if(When::NotEqual, R0, 0, drop);
    asm.load(Width::Word, R2, R6, DATA);
    asm.load(Width::Word, R3, R6, DATA_END);
    asm.copy(R4, R2);
    asm.add(R4, (ADDRESSES + TAG).into());
    asm.jump_if_greater(R4, R3, drop);
    for at in (0..ADDRESSES).step_by(4) {
        asm.load(Width::Word, R5, R2, at + TAG);
        asm.store(Width::Word, R2, at, R5);
    }
    // The protocol is as on the wire, the control information is a number.
    asm.load(Width::Half, R5, R10, PROTOCOL);
    asm.store(Width::Half, R2, ADDRESSES, R5);
    asm.load(Width::Half, R5, R10, CONTROL);
    asm.big_endian_16(R5);
    asm.store(Width::Half, R2, ADDRESSES + 2, R5);
    asm.place(done);
}

#[cfg(test)]
mod tests {
    use super::super::assembler::*;
    use super::*;
    use proptest::prelude::*;

    /// The program's verdict on a frame.
    #[derive(Debug, PartialEq)]
    enum Verdict {
        Pass,
        Drop,
        Redirect { queue: u64, map: u64, fallback: u64 },
    }

    /// The number of the function that reads a tag.
    const READ_TAG: i32 = 77_777;
    /// Bytes before a frame.
    const HEADROOM: usize = 8;

    /// An independent interpreter with checked memory accesses, which runs the program like the kernel.
    struct Machine {
        /// Headroom and the frame.
        packet: Vec<u8>,
        start: usize,
        queue: u32,
        has_socket: bool,
        tag: Option<(u16, u16)>,
        stack: [u8; 16],
    }

    const CONTEXT: u64 = 1 << 40;
    const PACKET: u64 = 1 << 20;
    /// The end of the stack.
    const STACK: u64 = 1 << 30;

    impl Machine {
        fn new(frame: &[u8], queue: u32) -> Machine {
            let packet = [&[0; HEADROOM], frame].concat();
            Machine { packet, start: HEADROOM, queue, has_socket: true, tag: None, stack: [0xee; 16] }
        }

        fn frame(&self) -> &[u8] {
            &self.packet[self.start..]
        }

        fn memory(&mut self, address: u64, len: usize) -> &mut [u8] {
            if address >= STACK - 16 {
                let at = (address + 16 - STACK) as usize;
                return &mut self.stack[at..at + len];
            }
            let at = (address - PACKET) as usize;
            assert!(at >= self.start);
            &mut self.packet[at..at + len]
        }

        fn call(&mut self, function: i32, is_helper: bool, r: &mut [u64; 11]) -> Option<Verdict> {
            r[0] = match (function, is_helper) {
                (REDIRECT_MAP, true) => return Some(Verdict::Redirect { map: r[1], queue: r[2], fallback: r[3] }),
                (LOOK_UP, true) => {
                    let queue = self.queue.to_ne_bytes();
                    assert_eq!(self.memory(r[2], 4), queue);
                    u64::from(self.has_socket)
                }
                (ADJUST_HEAD, true) => {
                    assert_eq!(r[1], CONTEXT);
                    match self.start.checked_add_signed(r[2].cast_signed() as isize) {
                        Some(start) => {
                            self.start = start;
                            0
                        }
                        None => -22i64 as u64,
                    }
                }
                (READ_TAG, false) => {
                    assert_eq!(r[1], CONTEXT);
                    match self.tag {
                        Some((protocol, control)) => {
                            self.memory(r[2], 2).copy_from_slice(&protocol.to_be_bytes());
                            self.memory(r[3], 2).copy_from_slice(&control.to_ne_bytes());
                            0
                        }
                        None => -2i64 as u64,
                    }
                }
                other => panic!("no function {other:?}"),
            };
            // Calls keep R6 to R10 only.
            r[1..6].fill(0xdead);
            None
        }

        fn run(&mut self, code: &[Instruction]) -> Verdict {
            let mut r = [0u64; 11];
            (r[1], r[10]) = (CONTEXT, STACK);
            let mut at = 0usize;
            for _ in 0..1000 {
                let Instruction { code: operation, registers, offset, immediate } = code[at];
                let (low, high) = (usize::from(registers & 15), usize::from(registers >> 4));
                let (to, from) = if cfg!(target_endian = "little") { (low, high) } else { (high, low) };
                at += 1;
                let mut jump = |condition: bool| {
                    if condition {
                        at = at.checked_add_signed(offset.into()).unwrap();
                    }
                };
                let value = immediate.cast_unsigned();
                let place = |register: u64| register.wrapping_add_signed(offset.into());
                match operation {
                    LOAD_WORD if r[from] == CONTEXT => {
                        r[to] = match offset {
                            0 => PACKET + self.start as u64,
                            4 => PACKET + self.packet.len() as u64,
                            16 => self.queue.into(),
                            other => panic!("no field at {other}"),
                        };
                    }
                    LOAD_BYTE => r[to] = self.memory(place(r[from]), 1)[0].into(),
                    LOAD_HALF => {
                        r[to] = u16::from_ne_bytes(*self.memory(place(r[from]), 2).first_chunk().unwrap()).into();
                    }
                    LOAD_WORD => {
                        r[to] = u32::from_ne_bytes(*self.memory(place(r[from]), 4).first_chunk().unwrap()).into();
                    }
                    STORE_HALF => self.memory(place(r[to]), 2).copy_from_slice(&(r[from] as u16).to_ne_bytes()),
                    STORE_WORD => self.memory(place(r[to]), 4).copy_from_slice(&(r[from] as u32).to_ne_bytes()),
                    STORE_IMMEDIATE_WORD => self.memory(place(r[to]), 4).copy_from_slice(&value.to_ne_bytes()),
                    BIG_ENDIAN => r[to] = (r[to] as u16).to_be().into(),
                    LOAD_IMMEDIATE_64 => {
                        assert_eq!((from, code[at].code), (MAP_FD.into(), 0));
                        r[to] = u64::from(value);
                        at += 1;
                    }
                    MOVE => r[to] = i64::from(immediate).cast_unsigned(),
                    MOVE_REGISTER => r[to] = r[from],
                    ADD => r[to] = r[to].wrapping_add_signed(immediate.into()),
                    JUMP => jump(true),
                    JUMP_GREATER_REGISTER => jump(r[to] > r[from]),
                    JUMP_EQUAL => jump(r[to] == u64::from(value)),
                    JUMP_EQUAL_32 => jump(r[to] as u32 == value),
                    JUMP_NOT_EQUAL_32 => jump(r[to] as u32 != value),
                    JUMP_ANY_BIT_32 => jump(r[to] as u32 & value != 0),
                    CALL => {
                        if let Some(verdict) = self.call(immediate, from == 0, &mut r) {
                            assert_eq!(code[at].code, EXIT);
                            return verdict;
                        }
                    }
                    EXIT if r[0] == PASS as u64 => return Verdict::Pass,
                    EXIT if r[0] == DROP as u64 => return Verdict::Drop,
                    other => panic!("no instruction {other:#x}"),
                }
            }
            panic!("the program does not end");
        }
    }

    fn run(code: &[Instruction], frame: &[u8], queue: u32) -> Verdict {
        Machine::new(frame, queue).run(code)
    }

    fn expected(steering: &Steering, frame: &[u8]) -> bool {
        match (steering, frame.first_chunk::<6>()) {
            (Steering::All, _) => true,
            (_, None) => false,
            (Steering::Destinations { macs, groups }, Some(to)) => {
                macs.contains(to)
                    || match groups {
                        Groups::None => false,
                        Groups::Broadcast => *to == [0xff; 6],
                        Groups::All => to[0] & 1 == 1,
                    }
            }
        }
    }

    #[test]
    fn the_simple_program_is_six_instructions() {
        assert_eq!(redirect(&Steering::All, 9, None).len(), 6);
    }

    #[test]
    fn most_addresses() {
        let macs: Vec<_> = (0..Steering::MOST_MACS as u8).map(|n| [2, 0, 0, 0, 0, n]).collect();
        let code = redirect(&Steering::Destinations { macs: macs.clone(), groups: Groups::None }, 3, None);
        for mac in macs {
            assert_eq!(run(&code, &mac, 1), Verdict::Redirect { queue: 1, map: 3, fallback: 2 });
        }
        assert_eq!(run(&code, &[2, 0, 0, 0, 0, Steering::MOST_MACS as u8], 1), Verdict::Pass);
    }

    /// Generates addresses that are often equal, in all or some bytes.
    fn mac() -> impl Strategy<Value = [u8; 6]> {
        let special = vec![[0xff; 6], [0x02, 0, 0, 0, 0, 1], [0x82, 0xff, 0xff, 0xff, 0xff, 0xfe]];
        prop_oneof![
            prop::array::uniform6(prop::sample::select(vec![0x00, 0x01, 0x02, 0x80, 0xff])),
            prop::sample::select(special),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 2000 }, failure_persistence: None, ..<_>::default() })]
        #[test]
        fn frames_go_where_they_should(
            macs in prop::option::of(prop::collection::vec(mac(), 0..5)),
            groups in prop::sample::select(vec![Groups::None, Groups::Broadcast, Groups::All]),
            to in mac(),
            len in prop_oneof![0..8usize, Just(60)],
            queue: u32,
            map in 0..i32::MAX,
        ) {
            let steering = macs.map_or(Steering::All, |macs| Steering::Destinations { macs, groups });
            let frame: Vec<u8> = to.into_iter().chain([0; 54]).take(len).collect();
            let verdict = run(&redirect(&steering, map, None), &frame, queue);
            let redirected = Verdict::Redirect { queue: queue.into(), map: map as u64, fallback: 2 };
            prop_assert_eq!(verdict, if expected(&steering, &frame) { redirected } else { Verdict::Pass });
        }

        #[test]
        fn tags_are_put_back(
            macs in prop::option::of(prop::collection::vec(mac(), 1..3)),
            to in mac(),
            len in prop_oneof![0..20usize, Just(60)],
            tag: Option<(u16, u16)>,
            has_socket: bool,
            queue: u32,
        ) {
            let steering = macs.map_or(Steering::All, |macs| Steering::Destinations { macs, groups: Groups::All });
            let frame: Vec<u8> = to.into_iter().chain(0..54).take(len).collect();
            let mut machine = Machine { tag, has_socket, ..Machine::new(&frame, queue) };
            let verdict = machine.run(&redirect(&steering, 5, Some(READ_TAG)));
            let redirected = Verdict::Redirect { queue: queue.into(), map: 5, fallback: 1 };
            let Some((protocol, control)) = tag.filter(|_| expected(&steering, &frame) && has_socket) else {
                let is_for_socket = expected(&steering, &frame) && has_socket;
                prop_assert_eq!(verdict, if is_for_socket { redirected } else { Verdict::Pass });
                prop_assert_eq!(machine.frame(), &frame);
                return Ok(());
            };
            if len < 12 {
                prop_assert_eq!(verdict, Verdict::Drop);
            } else {
                prop_assert_eq!(verdict, redirected);
                let tag = [protocol.to_be_bytes(), control.to_be_bytes()].concat();
                prop_assert_eq!(machine.frame(), [&frame[..12], &tag, &frame[12..]].concat());
            }
        }
    }

    #[test]
    fn a_frame_without_room_for_its_tag_is_dropped() {
        let mut machine = Machine { tag: Some((0x8100, 5)), ..Machine::new(&[2; 60], 0) };
        machine.packet.drain(..HEADROOM);
        machine.start = 0;
        assert_eq!(machine.run(&redirect(&Steering::All, 5, Some(READ_TAG))), Verdict::Drop);
    }
}
