//! testpmd on the driver, and a guest that talks with it by hand.

use e2e::plugin::plugin;
use e2e::virtio::{Guest, Options};
use e2e::{Home, Millrace, wait_for};
use lab::Result;
use lab::dpdk::{self, Builder, Port, Testpmd};
use lab::millrace::config::*;
use std::collections::BTreeMap;

/// Arguments of a testpmd whose buffers hold 512 bytes: longer frames come in several.
pub const SMALL_BUFFERS: [&str; 3] = ["--mbuf-size=640", "--enable-scatter", "--max-pkt-len=1518"];

/// A guest that talks with testpmd by hand, which returns its packets.
pub struct Echo {
    millrace: Millrace,
    pub testpmd: Testpmd,
    guest: Guest,
    _home: Home,
}

impl Echo {
    /// Starts all, with these rules of the driver and these arguments of testpmd.
    pub fn start(rules: RawAggregation, arguments: &[&str]) -> Result<Echo> {
        let home = Home::new();
        let millrace = home.start((patched("raw", "left"), sleeper()));
        std::fs::write(home.path("nf.toml"), rules.text()).unwrap();
        let port = Port::new(home.socket("left")).aggregating("nf.toml", "left");
        let testpmd = Testpmd::builder("echo").plugin(plugin()).port(port);
        let mut testpmd = arguments.iter().copied().fold(testpmd, Builder::argument).spawn()?;
        testpmd.wait_ready(dpdk::READY)?;
        testpmd.start()?;
        let guest = Options::new(home.socket("raw")).connect()?;
        millrace.wait_up(&["raw", "left"]);
        Ok(Echo { millrace, testpmd, guest, _home: home })
    }

    /// Sends frames, and checks that exactly these packets return, in order.
    pub fn returns(&mut self, frames: &[&[u8]], packets: &[&Vec<u8>]) -> Result<()> {
        let mut next = packets.iter();
        self.answers(frames, packets.len(), |bytes| next.next().is_some_and(|packet| packet.as_slice() == bytes))
    }

    /// Sends frames, waits until so many return, and checks that each of them `is_right`.
    pub fn answers(&mut self, frames: &[&[u8]], count: usize, mut is_right: impl FnMut(&[u8]) -> bool) -> Result<()> {
        self.guest.reap()?;
        for frame in frames {
            assert!(self.guest.send(&[frame], 1)?);
        }
        self.guest.flush();
        let mut arrived = 0;
        wait_for("the packets to return", || {
            let take = |bytes: &[u8]| {
                assert!(is_right(bytes), "number {arrived} is {bytes:x?}");
                arrived += 1;
                Ok(())
            };
            self.guest.receive(64, take).unwrap();
            (arrived >= count).then_some(())
        });
        Ok(())
    }

    /// Returns the driver's drops, by reason, and ends all.
    pub fn dropped(mut self) -> Result<BTreeMap<String, u64>> {
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
