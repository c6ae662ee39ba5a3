//! Attacks by hostile frontends on other backends, by CVE or case. After each of them, a well-behaved frontend is
//! served.
#![allow(missing_docs)]

mod support;

use rustix::fd::AsFd;
use support::{Bench, Guest, PACKED, Raw, SPLIT, Witness, memfd, words};
use vhost::vhost_user::message::FrontendReq as Request;
use vhost_user::Mode;
use virtqueue::features::VERSION_1;

const FEATURES: u64 = SPLIT | VERSION_1;
const USER: u64 = 0x7000_0000_0000;

fn bench() -> Bench {
    Bench::new(Mode::Server, 1)
}

/// Sends one table of (guest address, length, offset), each region from a file of `file_len` bytes, and checks why the
/// session ended.
fn refused_table(regions: &[[u64; 3]], file_len: u64, reason: &str) {
    let bench = bench();
    let raw = bench.raw();
    raw.negotiate(FEATURES);
    let files: Vec<_> = regions.iter().map(|_| memfd(file_len)).collect();
    let fds: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let table = regions.iter().map(|&[addr, len, offset]| [addr, len, USER | addr & 0xffff_ffff, offset]);
    let table: Vec<_> = table.collect();
    raw.send_table(&table, &fds);
    assert!(raw.is_closed());
    bench.ended(reason);
}

/// Describes a queue in two regions, [0x10000, 0x20000) and [0x30000, 0x40000), and checks why it does not start.
fn refused_ring(features: u64, addresses: [u64; 3], reason: &str) {
    let bench = bench();
    let raw = bench.raw();
    raw.negotiate(features | VERSION_1);
    let file = memfd(0x20000);
    let table = [[0x10000, 0x10000, USER + 0x10000, 0], [0x30000, 0x10000, USER + 0x30000, 0x10000]];
    raw.send_table(&table, &[file.as_fd(), file.as_fd()]);
    raw.send_state(Request::SET_VRING_NUM, 0, 256);
    let [descriptors, driver, device] = addresses.map(|a| USER + a);
    raw.send_addr(0, descriptors, driver, device);
    raw.send(Request::SET_VRING_KICK, &0x100u64.to_ne_bytes(), &[]);
    bench.echo.wait_line(reason);
    drop(raw);
    bench.ended("closed the connection");
}

#[test]
fn cve_2018_1059_ring_spans_unmapped_memory() {
    for features in [SPLIT, PACKED] {
        refused_ring(features, [0x1f010, 0x10000, 0x11000], "the descriptor area");
        refused_ring(features, [0x12000, 0x20000 - 2, 0x11000], "the driver area");
    }
    refused_ring(SPLIT, [0x12000, 0x10000, 0x40000 - 4], "the device area");
}

#[test]
fn cve_2018_1059_ring_in_no_region() {
    refused_ring(SPLIT, [0x12000, 0x25000, 0x11000], "is in none of the memory regions");
    refused_ring(PACKED, [0x12000, u64::MAX - USER - 1, 0x11000], "is in none of the memory regions");
}

#[test]
fn cve_2019_14818_repeated_set_vring_num() {
    let bench = bench();
    let raw = bench.raw();
    raw.negotiate(FEATURES);
    for i in 0..10_000 {
        raw.send_state(Request::SET_VRING_NUM, i % 2, 1 << (1 + i % 9));
    }
    let mut guest = Guest::raw(&raw, FEATURES, &[0, 1, 2, 3, 4, 5, 6, 7]);
    guest.exchange(100);
    drop((guest, raw));
    bench.ended("closed the connection");
}

#[test]
fn cve_2019_14818_extra_descriptors() {
    for count in [2, 8, 32, 33, 34, 200, 253] {
        let bench = bench();
        let raw = bench.raw();
        raw.negotiate(FEATURES);
        let witness = Witness::new();
        let fds = vec![witness.fd(); count];
        raw.send(Request::SET_VRING_KICK, &0u64.to_ne_bytes(), &fds);
        // If the receiver's buffer is too small, the kernel truncates the control data, and the header is lost with it.
        raw.send_table(&[[0x1000, 0x1000, USER, 0]], &fds);
        let raw = disconnect(raw);
        witness.all_closed();
        drop(raw);
        bench.echo.wait_disconnected();
        bench.still_works();
    }
}

/// Shuts down the write side without closing.
fn disconnect(raw: Raw) -> Raw {
    raw.0.shutdown(std::net::Shutdown::Write).unwrap();
    raw
}

#[test]
fn cve_2019_14818_descriptors_of_a_cut_message() {
    let bench = bench();
    let raw = bench.raw();
    let witness = Witness::new();
    raw.send_bytes(&words(&[Request::SET_VRING_KICK.into(), 1]), &[witness.fd()]);
    let raw = disconnect(raw);
    witness.all_closed();
    drop(raw);
    bench.ended("in the middle of a message");
}

#[test]
fn cve_2019_14818_descriptors_sent_again_and_again() {
    let bench = bench();
    let raw = bench.raw();
    raw.negotiate(FEATURES);
    let events: Vec<_> =
        (0..2).map(|_| rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap()).collect();
    // More than a process may have open.
    for i in 0..30_000u64 {
        let request = [Request::SET_VRING_KICK, Request::SET_VRING_CALL, Request::SET_VRING_ERR][i as usize % 3];
        raw.send_fd(request, i / 3 % 2, &events[i as usize % 2]);
    }
    raw.send(Request::GET_FEATURES, &[], &[]);
    raw.reply_u64();
    drop(raw);
    bench.ended("closed the connection");
}

#[test]
fn cve_2020_10722_set_log_base_wraps() {
    let bench = bench();
    let raw = bench.raw();
    raw.negotiate(FEATURES);
    let witness = Witness::new();
    let body = [u64::MAX - 1, 4096].map(u64::to_ne_bytes).concat();
    raw.send(Request::SET_LOG_BASE, &body, &[witness.fd()]);
    assert!(raw.is_closed());
    witness.all_closed();
    bench.ended("SET_LOG_BASE");
}

/// Sends a message about the queue with this index.
type Sender = Box<dyn Fn(&Raw, u32)>;

#[test]
fn cve_2020_10723_index_out_of_range() {
    let state = |request| move |raw: &Raw, index| raw.send_state(request, index, 1);
    let by_state =
        [Request::SET_VRING_NUM, Request::SET_VRING_BASE, Request::GET_VRING_BASE, Request::SET_VRING_ENABLE];
    let mut senders: Vec<Sender> = by_state.map(|r| Box::new(state(r)) as _).into();
    senders.push(Box::new(|raw, index| raw.send_addr(index, USER, USER, USER)));
    for send in senders {
        for index in [2, 255, 256, 0x8000, 0x1_0000, u32::MAX] {
            let bench = bench();
            let raw = bench.raw();
            raw.negotiate(FEATURES);
            send(&raw, index);
            assert!(raw.is_closed());
            bench.ended("there is no queue");
        }
    }
    for request in [Request::SET_VRING_KICK, Request::SET_VRING_CALL, Request::SET_VRING_ERR] {
        let bench = bench();
        let raw = bench.raw();
        raw.negotiate(FEATURES);
        raw.send(request, &0x1ffu64.to_ne_bytes(), &[]);
        assert!(raw.is_closed());
        bench.ended("there is no queue 255");
    }
}

#[test]
fn cve_2020_10726_endless_get_inflight_fd() {
    let bench = bench();
    for _ in 0..8 {
        let raw = bench.raw();
        raw.negotiate(FEATURES);
        for _ in 0..50 {
            raw.send(Request::GET_INFLIGHT_FD, &[0; 24], &[]);
        }
        assert!(raw.is_closed());
        assert!(bench.echo.wait_disconnected().contains("GET_INFLIGHT_FD"));
    }
    bench.still_works();
}

#[test]
fn cve_2021_3839_set_inflight_fd_with_too_many_queues() {
    let bench = bench();
    let raw = bench.raw();
    raw.negotiate(FEATURES);
    let witness = Witness::new();
    let body = [vec![0; 16], u16::MAX.to_ne_bytes().to_vec(), 256u16.to_ne_bytes().to_vec(), vec![0; 4]].concat();
    raw.send(Request::SET_INFLIGHT_FD, &body, &[witness.fd()]);
    assert!(raw.is_closed());
    witness.all_closed();
    bench.ended("SET_INFLIGHT_FD");
}

#[test]
fn cve_2022_0669_descriptors_where_none_belong() {
    for (request, body) in [
        (Request::SET_OWNER, vec![]),
        (Request::GET_FEATURES, vec![]),
        (Request::SET_FEATURES, FEATURES.to_ne_bytes().to_vec()),
        (Request::SET_VRING_NUM, words(&[0, 256])),
        (Request::GET_VRING_BASE, words(&[0, 0])),
        (Request::SET_VRING_ENABLE, words(&[0, 1])),
        (Request::GET_PROTOCOL_FEATURES, vec![]),
        (Request::GET_QUEUE_NUM, vec![]),
    ] {
        let bench = bench();
        let raw = bench.raw();
        let witness = Witness::new();
        for _ in 0..10 {
            raw.send(request, &body, &[witness.fd(), witness.fd()]);
        }
        // Refused or discarded: by the time of the next message nobody holds it.
        raw.send_u64(Request::SET_FEATURES, 0);
        let raw = disconnect(raw);
        witness.all_closed();
        drop(raw);
        bench.echo.wait_disconnected();
        bench.still_works();
    }
}

#[test]
fn cve_2026_region_size_lies() {
    refused_table(&[[0x10000, 0x10001, 0]], 0x10000, "ends at offset 0x10001");
    refused_table(&[[0x10000, 1 << 50, 0]], 0x10000, "ends at offset 0x4000000000000");
    refused_table(&[[0x10000, 0, 0]], 0x10000, "region 0 is empty, or ends behind");
    refused_table(&[[0x10000, u64::MAX, 0]], 0x10000, "region 0 is empty, or ends behind");
    refused_table(&[[u64::MAX - 0xfff, 0x2000, 0]], 0x10000, "region 0 is empty, or ends behind");
}

#[test]
fn mmap_offset_beyond_the_file() {
    refused_table(&[[0x10000, 0x1000, 0x10000]], 0x10000, "ends at offset 0x11000");
    refused_table(&[[0x10000, 0x1000, 1 << 62]], 0x10000, "ends at offset");
    refused_table(&[[0x10000, 0x1000, u64::MAX - 0xfff]], 0x10000, "region 0 is empty, or ends behind");
}

#[test]
fn overlapping_regions() {
    refused_table(&[[0x10000, 0x2000, 0], [0x11000, 0x2000, 0]], 0x10000, "overlap");
    refused_table(&[[0x10000, 0x2000, 0], [0x10000, 0x2000, 0]], 0x10000, "overlap");
}

#[test]
fn unaligned_ring_addresses() {
    refused_ring(PACKED, [0x12000, 0x10002, 0x11000], "the driver area at 0x10002 is not aligned");
    for addresses in [[0x12008, 0x10000, 0x11000], [0x12000, 0x10001, 0x11000], [0x12000, 0x10000, 0x11002]] {
        let bench = bench();
        let raw = bench.raw();
        raw.negotiate(FEATURES);
        raw.send_addr(0, USER + addresses[0], USER + addresses[1], USER + addresses[2]);
        assert!(raw.is_closed());
        bench.ended("SET_VRING_ADDR");
    }
}
