//! Many packets of random sizes, each checked. The environment variable MILLRACE_SOAK_FRAMES sets another number.

use super::rig::{Rig, VIDS};
use e2e::stream::{exchange, joined_both_ways};
use lab::Result;

fn packets() -> u64 {
    let wanted = std::env::var("MILLRACE_SOAK_FRAMES").ok();
    wanted.map_or(40_000, |number| number.parse().expect("MILLRACE_SOAK_FRAMES is a number")) / 2
}

#[test]
fn many_packets_each_way() -> Result<()> {
    let mut rig = Rig::start(1)?;
    let mut ends = rig.ends()?;
    rig.testpmd.start()?;
    exchange(&mut ends, packets(), &VIDS)?;
    rig.testpmd.stop()?;
    let [received, sent] = rig.millrace.sides("wan");
    joined_both_ways(&received, &sent, packets());
    rig.millrace.none_dropped();
    rig.stop()
}
