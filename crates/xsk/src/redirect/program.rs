//! The program that runs for each frame: redirects it to a socket, or passes it to the kernel.

use super::assembler::Register::*;
use super::assembler::{Assembler, Instruction, When, Width};

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
/// `BPF_FUNC_redirect_map`.
const REDIRECT_MAP: i32 = 51;

// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const RX_QUEUE_INDEX: i16 = 16;

/// Assembles the program; `map` is the file descriptor of the sockets' map.
pub(super) fn redirect(steering: &Steering, map: i32) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    let hit = asm.label();
    if let Steering::Destinations { macs, groups } = steering {
        if macs.is_empty() && *groups == Groups::None {
            // The verifier refuses unreachable instructions.
            asm.set(R0, PASS);
            asm.exit();
            return asm.finish();
        }
        let pass = asm.label();
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
        asm.place(pass);
        asm.set(R0, PASS);
        asm.exit();
    }
    asm.place(hit);
    asm.load(Width::Word, R2, R1, RX_QUEUE_INDEX);
    asm.load_map(R1, map);
    asm.set(R3, PASS);
    asm.call(REDIRECT_MAP);
    asm.exit();
    asm.finish()
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
        Redirect { queue: u64, map: u64, fallback: u64 },
    }

    /// Runs the program like the kernel: an independent interpreter with checked memory accesses.
    fn run(code: &[Instruction], frame: &[u8], queue: u32) -> Verdict {
        const CONTEXT: u64 = 1 << 40;
        const PACKET: u64 = 1 << 20;
        let mut r = [0u64, CONTEXT, 0, 0, 0, 0];
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
            match operation {
                LOAD_WORD if r[from] == CONTEXT => {
                    r[to] = match offset {
                        0 => PACKET,
                        4 => PACKET + frame.len() as u64,
                        16 => queue.into(),
                        other => panic!("no field at {other}"),
                    };
                }
                LOAD_BYTE | LOAD_HALF | LOAD_WORD => {
                    let start = (r[from] - PACKET) as usize + offset as usize;
                    let bytes = |len: usize| &frame[start..start + len];
                    r[to] = match operation {
                        LOAD_BYTE => bytes(1)[0].into(),
                        LOAD_HALF => u16::from_ne_bytes(bytes(2).try_into().unwrap()).into(),
                        _ => u32::from_ne_bytes(bytes(4).try_into().unwrap()).into(),
                    };
                }
                LOAD_IMMEDIATE_64 => {
                    assert_eq!((from, code[at].code), (MAP_FD.into(), 0));
                    r[to] = u64::from(value);
                    at += 1;
                }
                MOVE => r[to] = i64::from(immediate).cast_unsigned(),
                MOVE_REGISTER => r[to] = r[from],
                ADD => r[to] = r[to].wrapping_add_signed(immediate.into()),
                JUMP_GREATER_REGISTER => jump(r[to] > r[from]),
                JUMP_EQUAL_32 => jump(r[to] as u32 == value),
                JUMP_NOT_EQUAL_32 => jump(r[to] as u32 != value),
                JUMP_ANY_BIT_32 => jump(r[to] as u32 & value != 0),
                CALL => {
                    assert_eq!((immediate, code[at].code, code.len()), (REDIRECT_MAP, EXIT, at + 1));
                    return Verdict::Redirect { map: r[1], queue: r[2], fallback: r[3] };
                }
                EXIT => {
                    assert_eq!(r[0], PASS as u64);
                    return Verdict::Pass;
                }
                other => panic!("no instruction {other:#x}"),
            }
        }
        panic!("the program does not end");
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
        assert_eq!(redirect(&Steering::All, 9).len(), 6);
    }

    #[test]
    fn most_addresses() {
        let macs: Vec<_> = (0..Steering::MOST_MACS as u8).map(|n| [2, 0, 0, 0, 0, n]).collect();
        let code = redirect(&Steering::Destinations { macs: macs.clone(), groups: Groups::None }, 3);
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
            let verdict = run(&redirect(&steering, map), &frame, queue);
            let redirected = Verdict::Redirect { queue: queue.into(), map: map as u64, fallback: 2 };
            prop_assert_eq!(verdict, if expected(&steering, &frame) { redirected } else { Verdict::Pass });
        }
    }
}
