//! A program that gives frames a VLAN tag as they leave an interface. As with any tag that the kernel adds, it lies beside the frame, not in
//! it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::interface;

/// `BPF_PROG_LOAD` and `BPF_LINK_CREATE`, `BPF_PROG_TYPE_SCHED_CLS`, `BPF_TCX_EGRESS` (Linux 6.6), and `BPF_FUNC_skb_vlan_push`.
const LOAD: libc::c_long = 5;
const LINK: libc::c_long = 28;
const CLASSIFIER: u32 = 3;
const EGRESS: u32 = 47;
const PUSH: i32 = 18;

/// Tags frames until it is dropped.
pub struct Tagger {
    _link: OwnedFd,
}

impl Tagger {
    /// Tags frames that leave an interface of the calling thread's namespace.
    pub fn start(name: &str, protocol: u16, control: u16) -> Tagger {
        let instruction = |code: u8, registers: u8, immediate: i32| {
            let mut bytes = [code, registers, 0, 0, 0, 0, 0, 0];
            bytes[4..].copy_from_slice(&immediate.to_ne_bytes());
            bytes
        };
        let code = [
            // r2 = protocol as on the wire; r3 = control; push; r0 = TC_ACT_OK; exit
            instruction(0xb7, 2, i32::from(protocol.to_be())),
            instruction(0xb7, 3, control.into()),
            instruction(0x85, 0, PUSH),
            instruction(0xb7, 0, 0),
            instruction(0x95, 0, 0),
        ];
        let words = |program: u32, count: u32| {
            u64::from_ne_bytes([program.to_ne_bytes(), count.to_ne_bytes()].concat().try_into().unwrap())
        };
        let load = [
            words(CLASSIFIER, code.len() as u32),
            code.as_ptr().expose_provenance() as u64,
            c"GPL".as_ptr().expose_provenance() as u64,
        ];
        let program = bpf(LOAD, &load);
        let link = [words(program.as_raw_fd().cast_unsigned(), interface(name).index), words(EGRESS, 0)];
        Tagger { _link: bpf(LINK, &link) }
    }
}

fn bpf<const N: usize>(command: libc::c_long, attributes: &[u64; N]) -> OwnedFd {
    // SAFETY: the attributes of both commands, as far as they are used, are words; what they point to lives until the call returns.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(attributes)) };
    assert!(fd >= 0, "bpf({command}): {} (this test needs to run as root, and Linux 6.6)", io::Error::last_os_error());
    // SAFETY: both commands return a new descriptor.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}
