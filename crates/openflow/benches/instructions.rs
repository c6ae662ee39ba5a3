//! Instructions per lookup of a burst, counted by valgrind: exact, regardless of the machine's load.
//!
//! `cargo xtask verify --only instructions` runs this and compares with `bench/baseline/instructions.json`.
#![allow(missing_docs)] // The macros' own items.

use gungraun::{library_benchmark, library_benchmark_group, main};
use openflow::{Cache, Classifier, Field, HEADER_BYTES, Key, Match, RawKey};
use std::hint::black_box;

const BURST: usize = 32;
const VERSION: u64 = 1;

/// Builds UDP packets over IPv4 or IPv6 to different ports, with or without a tag.
fn packets(v6: bool, tagged: bool) -> Vec<[u8; HEADER_BYTES]> {
    let packet = |number: u8| {
        let mut packet = [0x55; HEADER_BYTES];
        let mut at = 12;
        let mut put = |bytes: &[u8]| {
            packet[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        if tagged {
            put(&[0x81, 0, 0, 100]);
        }
        if v6 {
            put(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 58, 17, 64]);
            put(&[0xfd; 32]);
        } else {
            put(&[8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        }
        put(&[4, number, 0, 53]);
        packet
    };
    (0..BURST as u8).map(packet).collect()
}

/// A burst, a cache with its keys, and for each packet a table of flows with four masks, of which the last one matches.
/// Each table has its own random hash key: the differences in cost average out over the tables.
pub struct Rig {
    packets: Vec<[u8; HEADER_BYTES]>,
    common: Cache<RawKey, u32>,
    cache: Cache<Key, u32>,
    tables: Vec<Classifier<u32>>,
}

fn rig(v6: bool, tagged: bool) -> Rig {
    let packets = packets(v6, tagged);
    let (mut common, mut cache) = (Cache::new(16_384, 7), Cache::new(16_384, 7));
    let all = u128::MAX;
    let kind = Match::any().with(Field::EthType, if v6 { 0x86dd } else { 0x0800 }, all).with(Field::IpProto, 17, all);
    let table = |_| {
        let mut table = Classifier::new();
        table.insert(&Match::any().with(Field::EthDst, 1, all), 9, 1);
        table.insert(&Match::any().with(Field::VlanVid, 0x1000 | 7, all), 8, 2);
        table.insert(&kind.with(Field::UdpSrc, 9, all), 7, 3);
        table.insert(&kind.with(Field::UdpDst, 53, all), 6, 4);
        table
    };
    let tables = packets.iter().map(table).collect();
    for packet in &packets {
        common.insert(&raw_key(packet), VERSION, 4);
        cache.insert(&Key::extract(packet, 1, 0).unwrap(), VERSION, 4);
    }
    Rig { packets, common, cache, tables }
}

#[inline(always)]
fn raw_key(packet: &[u8; HEADER_BYTES]) -> RawKey {
    RawKey::of(packet.first_chunk().unwrap(), HEADER_BYTES, 1).unwrap()
}

#[library_benchmark(setup = rig)]
#[bench::udp(false, false)]
#[bench::udp_tagged(false, true)]
#[bench::udp_over_ipv6(true, false)]
fn look_up_common(mut rig: Rig) {
    for packet in &rig.packets {
        let key = raw_key(black_box(packet));
        black_box(rig.common.get(&key, VERSION));
    }
    std::mem::forget(rig);
}

#[library_benchmark(setup = rig)]
#[bench::udp(false, false)]
#[bench::udp_tagged(false, true)]
#[bench::udp_over_ipv6(true, false)]
fn look_up_cached(mut rig: Rig) {
    for packet in &rig.packets {
        let key = Key::extract(black_box(packet), 1, 0).unwrap();
        black_box(rig.cache.get(&key, VERSION));
    }
    std::mem::forget(rig);
}

#[library_benchmark(setup = rig)]
#[bench::four_masks(false, false)]
fn look_up_in_table(rig: Rig) {
    for (packet, table) in rig.packets.iter().zip(&rig.tables) {
        let key = Key::extract(black_box(packet), 1, 0).unwrap();
        black_box(table.lookup(&key).found);
    }
    std::mem::forget(rig);
}

library_benchmark_group!(name = look_up, benchmarks = [look_up_common, look_up_cached, look_up_in_table]);
main!(library_benchmark_groups = look_up);
