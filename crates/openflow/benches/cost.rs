//! The cost of one packet: its key, a cached result, and a lookup in the table. `cargo bench -p millrace-openflow`
#![allow(missing_docs)]

use openflow::{Cache, CacheKey, Classifier, Field, Key, Match, RawKey};
use std::hint::black_box;
use std::time::Instant;

const BURST: usize = 32;
const ROUNDS: usize = 100_000;

/// Runs `burst` five times and prints the best time in nanoseconds per packet.
fn measure(name: &str, mut burst: impl FnMut()) {
    let best = (0..5).map(|_| {
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| burst());
        start.elapsed().as_nanos() as f64 / (ROUNDS * BURST) as f64
    });
    println!("{name:44} {:6.2} ns per packet", best.fold(f64::INFINITY, f64::min));
}

/// Measures a cache with these keys.
fn measure_caches<K: CacheKey>(name: &str, keys: &[K]) {
    for distinct in [1, 4096] {
        let mut cache = Cache::new(16384, 7);
        keys.iter().for_each(|key| cache.insert(key, 1, 5u32));
        let mut at = 0;
        measure(&format!("cache {name}, keys: {distinct}"), || {
            at = (at + BURST) % 4096;
            (at..at + BURST).for_each(|index| {
                black_box(cache.get(black_box(&keys[index % distinct]), 1));
            });
        });
    }
}

fn main() {
    let frames: Vec<[u8; 64]> = (0..4096u16)
        .map(|number| {
            let mut frame = [0x55; 64];
            frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17]);
            frame[34..36].copy_from_slice(&number.to_be_bytes());
            frame
        })
        .collect();
    let mut at = 0;
    measure("key of a UDP packet", || {
        at = (at + BURST) % 4096;
        for frame in &frames[at..at + BURST] {
            black_box(Key::extract(frame, 1, 0));
        }
    });
    measure("the same by its bytes", || {
        at = (at + BURST) % 4096;
        for frame in &frames[at..at + BURST] {
            black_box(RawKey::of(frame, 64, 1));
        }
    });
    let raw: Vec<RawKey> = frames.iter().map(|frame| RawKey::of(frame, 64, 1).unwrap()).collect();
    measure_caches("by bytes", &raw);
    let keys: Vec<Key> = frames.iter().map(|frame| Key::extract(frame, 1, 0).unwrap()).collect();
    measure_caches("by fields", &keys);
    let mut table = Classifier::new();
    for number in 0..1000u16 {
        let udp = Match::any().with(Field::EthType, 0x0800, u128::MAX).with(Field::IpProto, 17, u128::MAX);
        table.insert(&udp.with(Field::UdpSrc, number.into(), u128::MAX), 10, 0u32);
        let port = Match::any().with(Field::InPort, number.into(), u128::MAX);
        table.insert(&port, 5, 0u32);
    }
    measure("table of 2000 flows with two masks", || {
        at = (at + BURST) % 4096;
        for key in &keys[at..at + BURST] {
            black_box(table.lookup(key).found);
        }
    });
}
