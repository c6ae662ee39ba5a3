//! The plugin's interface: `dpdk/port/port.h` in Rust. Each function's contract stands there.

use crate::frame::{Frame, Loan, ToSend, Work};
use std::ffi::{c_char, c_int, c_void};

/// Version of the interface.
pub const ABI: u32 = 3;

/// Room for a sentence about an error.
pub const ERROR: usize = 512;

/// Flags of devices.
pub const CHAINS: u32 = 1;
pub const UNFINISHED: u32 = 4;
pub const REGISTERS: u32 = 8;

/// Flags of the work that devices do.
pub const CHECKSUM: u16 = 16;
pub const TCP4: u16 = 32;
pub const TCP6: u16 = 64;

/// `struct mr_receive` and `struct mr_transmit`, which only the plugin knows.
#[repr(C)]
pub struct RawReceive {
    _private: [u8; 0],
}
#[repr(C)]
pub struct RawTransmit {
    _private: [u8; 0],
}

#[repr(C)]
pub struct RawRegion {
    pub addr: u64,
    pub len: u64,
    pub page: u64,
    pub iovas: *const u64,
}

#[repr(C)]
pub struct RawInfo {
    pub name: [c_char; 64],
    pub driver: [c_char; 64],
    pub bus: [c_char; 32],
    pub refusal: [c_char; 160],
    pub own_only: [c_char; 160],
    pub receive_queues: u16,
    pub transmit_queues: u16,
    pub receive_least: u16,
    pub receive_most: u16,
    pub receive_align: u16,
    pub transmit_least: u16,
    pub transmit_most: u16,
    pub transmit_align: u16,
    pub max_mtu: u32,
    pub min_room: u32,
    pub flags: u32,
}

#[repr(C)]
pub struct RawConfig {
    pub queues: u16,
    pub receive_size: u16,
    pub transmit_size: u16,
    pub mtu: u16,
    pub room: u32,
    pub interrupts: u8,
    pub rss: u8,
    pub work: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct RawSizes {
    pub ring: u32,
    pub capacity: u32,
    pub least: u32,
    pub reserve: u32,
    pub idle: u32,
    pub pieces: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct RawOut {
    pub guest: u32,
    pub own: u32,
    pub guest_waiting: u32,
    pub own_waiting: u32,
}

#[repr(C)]
#[derive(Default)]
pub struct RawLink {
    pub speed: u32,
    pub up: u8,
    pub full_duplex: u8,
    pub reserved: u16,
}

#[repr(C)]
#[derive(Default)]
pub struct RawStats {
    pub received: u64,
    pub received_bytes: u64,
    pub sent: u64,
    pub sent_bytes: u64,
    pub missed: u64,
    pub no_buffer: u64,
    pub receive_errors: u64,
    pub transmit_errors: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct RawCounts {
    pub frames: u64,
    pub dropped: u64,
    pub no_buffer: u64,
}

type Sentence = *mut c_char;

/// `struct millrace_dpdk`.
#[repr(C)]
pub struct Table {
    pub abi: u32,
    pub reserved: u32,
    pub version: unsafe extern "C" fn() -> *const c_char,
    pub start: unsafe extern "C" fn(c_int, *mut *mut c_char, Sentence) -> c_int,
    pub is_virtual: unsafe extern "C" fn() -> bool,

    pub probe: unsafe extern "C" fn(*const c_char, *mut u16, Sentence) -> c_int,
    pub remove: unsafe extern "C" fn(u16, Sentence) -> c_int,
    pub info: unsafe extern "C" fn(u16, *mut RawInfo, Sentence) -> c_int,
    pub configure: unsafe extern "C" fn(u16, *const RawConfig, Sentence) -> c_int,
    pub start_port: unsafe extern "C" fn(u16, Sentence) -> c_int,
    pub stop_port: unsafe extern "C" fn(u16, Sentence) -> c_int,
    pub link: unsafe extern "C" fn(u16, *mut RawLink) -> c_int,
    pub stats: unsafe extern "C" fn(u16, *mut RawStats) -> c_int,
    pub promiscuous: unsafe extern "C" fn(u16, bool, Sentence) -> c_int,
    pub mac: unsafe extern "C" fn(u16, *mut u8) -> c_int,
    pub steer: unsafe extern "C" fn(u16, *const u8, u16, *mut *mut c_void, Sentence) -> c_int,
    pub unsteer: unsafe extern "C" fn(u16, *mut c_void, Sentence) -> c_int,

    pub memory_register: unsafe extern "C" fn(*const RawRegion, Sentence) -> c_int,
    pub memory_unregister: unsafe extern "C" fn(*const RawRegion) -> c_int,
    pub memory_map: unsafe extern "C" fn(u16, *const RawRegion, Sentence) -> c_int,
    pub memory_unmap: unsafe extern "C" fn(*const RawRegion) -> c_int,

    pub receive_open:
        unsafe extern "C" fn(u16, u16, *const RawConfig, *mut *mut RawReceive, *mut RawSizes, Sentence) -> c_int,
    pub receive_setup: unsafe extern "C" fn(*mut RawReceive, Sentence) -> c_int,
    pub receive_close: unsafe extern "C" fn(*mut RawReceive),
    pub receive_start: unsafe extern "C" fn(*mut RawReceive, Sentence) -> c_int,
    pub receive_stop: unsafe extern "C" fn(*mut RawReceive, Sentence) -> c_int,
    pub receive_flush: unsafe extern "C" fn(*mut RawReceive),
    pub receive_region: unsafe extern "C" fn(*mut RawReceive, *const RawRegion, Sentence) -> c_int,
    pub receive_forget: unsafe extern "C" fn(*mut RawReceive, *const RawRegion),
    pub receive_within: unsafe extern "C" fn(*mut RawReceive, *const RawRegion) -> u32,
    pub receive_burst: unsafe extern "C" fn(*mut RawReceive, *mut Frame, u32, u32) -> u32,
    pub receive_lend: unsafe extern "C" fn(*mut RawReceive, u32, *const Loan, u32) -> u32,
    pub receive_takes: unsafe extern "C" fn(*mut RawReceive, u32, *const Loan) -> bool,
    pub receive_reclaim: unsafe extern "C" fn(*mut RawReceive, u32, *mut u32, u32) -> u32,
    pub receive_out: unsafe extern "C" fn(*const RawReceive) -> RawOut,
    pub receive_counts: unsafe extern "C" fn(*const RawReceive) -> RawCounts,
    pub receive_events: unsafe extern "C" fn(*mut RawReceive, c_int, bool) -> c_int,
    pub receive_arm: unsafe extern "C" fn(*mut RawReceive, c_int) -> bool,
    pub receive_disarm: unsafe extern "C" fn(*mut RawReceive),

    pub transmit_open:
        unsafe extern "C" fn(u16, u16, *const RawConfig, *mut *mut RawTransmit, *mut RawSizes, Sentence) -> c_int,
    pub transmit_setup: unsafe extern "C" fn(*mut RawTransmit, Sentence) -> c_int,
    pub transmit_close: unsafe extern "C" fn(*mut RawTransmit),
    pub transmit_region: unsafe extern "C" fn(*mut RawTransmit, *const RawRegion, Sentence) -> c_int,
    pub transmit_forget: unsafe extern "C" fn(*mut RawTransmit, *const RawRegion),
    pub transmit_within: unsafe extern "C" fn(*mut RawTransmit, *const RawRegion) -> u32,
    pub transmit_send: unsafe extern "C" fn(*mut RawTransmit, *const ToSend, u32) -> u32,
    pub transmit_send_work: unsafe extern "C" fn(*mut RawTransmit, *const ToSend, u32, *const Work) -> u32,
    pub transmit_done: unsafe extern "C" fn(*mut RawTransmit, *mut u32, u32) -> u32,
    pub transmit_clean: unsafe extern "C" fn(*mut RawTransmit) -> bool,
    pub transmit_out: unsafe extern "C" fn(*const RawTransmit) -> u32,
    pub transmit_counts: unsafe extern "C" fn(*const RawTransmit) -> RawCounts,
}

const _: () = {
    assert!(size_of::<Loan>() == 24);
    assert!(size_of::<Frame>() == 16);
    assert!(size_of::<ToSend>() == 16);
    assert!(size_of::<Work>() == 10);
    assert!(size_of::<RawRegion>() == 32);
    assert!(size_of::<RawInfo>() == 508);
    assert!(size_of::<RawConfig>() == 16);
    assert!(size_of::<RawSizes>() == 24);
    assert!(size_of::<RawOut>() == 16);
    assert!(size_of::<RawLink>() == 8);
    assert!(size_of::<RawStats>() == 64);
    assert!(size_of::<RawCounts>() == 24);
};

#[cfg(test)]
mod tests {
    #[test]
    fn functions_are_in_the_order_of_the_header() {
        let header = include_str!("../../../dpdk/port/port.h");
        let table = include_str!("abi.rs").split_once("pub struct Table").unwrap().1;
        let fields = table.split("pub ").filter_map(|field| field.split_once(':'));
        let functions = fields.filter(|(_, form)| form.trim_start().starts_with("unsafe extern")).map(|(name, _)| name);
        let expected = header.split("(*").skip(1).filter_map(|rest| rest.split_once(")(")).map(|(name, _)| name);
        assert_eq!(functions.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        assert!(header.contains(&format!("#define MR_ABI {}\n", super::ABI)));
    }
}
