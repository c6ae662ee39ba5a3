//! Wrong aggregates, and right ones that come in several buffers.

use e2e::aggregate::{by_hand, malformed};
use e2e::plugin::plugin;
use e2e::stream::{aggregation, packet};
use e2e::virtio::{Guest, Options};
use e2e::{Home, Millrace, wait_for};
use lab::Result;
use lab::dpdk::{self, Builder, Port, Testpmd};
use lab::millrace::config::*;
use std::collections::BTreeMap;

/// A guest that talks with testpmd by hand, which returns its packets. Nothing is joined, so that they return one by one.
struct Echo {
    millrace: Millrace,
    testpmd: Testpmd,
    guest: Guest,
    _home: Home,
}

impl Echo {
    fn start(adapt: impl FnOnce(Builder) -> Builder) -> Result<Echo> {
        let home = Home::new();
        let millrace = home.start((patched("raw", "left"), sleeper()));
        std::fs::write(home.path("nf.toml"), aggregation(0, &[]).text()).unwrap();
        let port = Port::new(home.socket("left")).aggregating("nf.toml", "left");
        let mut testpmd = adapt(Testpmd::builder("echo").plugin(plugin()).port(port)).spawn()?;
        testpmd.wait_ready(dpdk::READY)?;
        testpmd.start()?;
        let guest = Options::new(home.socket("raw")).connect()?;
        millrace.wait_up(&["raw", "left"]);
        Ok(Echo { millrace, testpmd, guest, _home: home })
    }

    /// Sends frames, and checks that exactly these packets return, in order.
    fn returns(&mut self, frames: &[&[u8]], packets: &[&Vec<u8>]) -> Result<()> {
        self.guest.reap()?;
        for frame in frames {
            assert!(self.guest.send(&[frame], 1)?);
        }
        self.guest.flush();
        let mut next = packets.iter();
        wait_for("the packets to return", || {
            let take = |bytes: &[u8]| {
                assert!(next.next().is_some_and(|packet| packet.as_slice() == bytes));
                Ok(())
            };
            self.guest.receive(64, take).unwrap();
            next.as_slice().is_empty().then_some(())
        });
        Ok(())
    }

    /// Returns the driver's drops, by reason, and ends all.
    fn dropped(mut self) -> Result<BTreeMap<String, u64>> {
        self.testpmd.stop()?;
        let named = self.testpmd.named_stats()?.swap_remove(0);
        let dropped = named.iter().filter(|(_, count)| **count > 0);
        let dropped = dropped.filter_map(|(name, count)| Some((name.strip_prefix("rx_dropped_")?.to_owned(), *count)));
        let dropped = dropped.collect();
        self.testpmd.quit(e2e::SOON)?;
        self.millrace.stop();
        Ok(dropped)
    }
}

/// Returns packets short enough for an aggregate.
fn short_packets() -> Vec<Vec<u8>> {
    (0..12).map(|number| packet(0, number, &[100])).filter(|bytes| bytes.len() < 200).collect()
}

#[test]
fn a_wrong_aggregate_loses_only_itself_and_is_counted_by_reason() -> Result<()> {
    let mut echo = Echo::start(|testpmd| testpmd)?;
    let packets = short_packets();
    let good = by_hand(&packets);
    let all: Vec<_> = packets.iter().chain([&packets[0]]).chain(&packets).collect();
    let mut wanted = BTreeMap::new();
    for _ in 0..5 {
        for (reason, bad) in &malformed(&good) {
            echo.returns(&[&good, bad, &packets[0], &good], &all)?;
            *wanted.entry((*reason).to_owned()).or_insert(0) += 1;
        }
    }
    let errors: u64 = wanted.values().sum();
    assert_eq!(echo.testpmd.stats()?[0].rx_errors, errors);
    assert_eq!(echo.dropped()?, wanted);
    Ok(())
}

/// testpmd's buffers hold 512 bytes: aggregates come in three of them, and a packet that does not fit into one is dropped.
#[test]
fn an_aggregate_in_several_buffers_is_split() -> Result<()> {
    let small = ["--mbuf-size=640", "--enable-scatter", "--max-pkt-len=1518"];
    let mut echo = Echo::start(|testpmd| small.into_iter().fold(testpmd, Builder::argument))?;
    let packets = short_packets();
    let mut long = packets[0].clone();
    long.resize(600, 0);
    let with_a_long_one: Vec<_> = packets[..2].iter().chain([&long]).chain(&packets[2..5]).cloned().collect();
    let [first, second] = [by_hand(&packets), by_hand(&with_a_long_one)];
    assert!(first.len() > 512 && second.len() > 1024, "{} {}", first.len(), second.len());
    // Alone, a long one needs no buffer but those that it came in.
    let all: Vec<_> = packets.iter().chain(&packets[..5]).chain([&long]).collect();
    for _ in 0..50 {
        echo.returns(&[&first, &second, &long], &all)?;
    }
    assert_eq!(echo.dropped()?, BTreeMap::from([("too-long".to_owned(), 50)]));
    Ok(())
}
