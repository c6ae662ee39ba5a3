//! Frames that stay in place by their length: as configured, or as the switch finds while they flow.

use e2e::virtio::{Exchange, Options};
use e2e::wire::{KINDS, Line};
use e2e::{Home, wait_for};
use lab::Result;
use lab::millrace::config::*;

use super::nothing_dropped;

const SHORT: std::ops::RangeInclusive<usize> = 60..=200;
const LONG: std::ops::RangeInclusive<usize> = 1000..=1500;

/// Frames each way, in each phase.
const FRAMES: u64 = 5_000;

/// Short frames are copied, long ones stay in place, and none is lost when the queue goes from the one to the other.
#[test]
fn short_frames_are_copied_and_long_ones_stay_in_place() -> Result<()> {
    for kind in KINDS {
        for bridged in [false, true] {
            let (home, line) = (Home::new(), Line::new(kind, false)?);
            let joined = if bridged {
                file((RawMapping { copy_break: 512.into(), ..mapping("wan", "fw") }, bridge("br0", ["wan", "fw"])))
            } else {
                file(RawMapping { copy_break: 512.into(), ..pass_through("wan", "fw") })
            };
            let millrace = line.switch(&home, (joined, e2e::poller()));
            let mut guests = [Options::new(home.socket("fw")).connect()?, line.wire.guest("far")?];
            millrace.wait_mapped();
            for sizes in [SHORT, LONG, SHORT, LONG] {
                let before = millrace.mapping();
                let mut exchange = Exchange::new(guests, [1, 2], sizes.clone(), 32);
                exchange.run(FRAMES, e2e::SOON)?;
                guests = exchange.into_guests();
                let now = wait_for("all frames to be counted", || {
                    let now = millrace.mapping();
                    (now.in_place + now.copied >= before.in_place + before.copied + FRAMES).then_some(now)
                });
                let in_place = [now.in_place - before.in_place, now.sent_in_place - before.sent_in_place];
                // Those of the phase before are still on their way, and so are the buffers that were meant for them.
                if sizes == SHORT {
                    assert!(in_place.iter().all(|&frames| frames < FRAMES / 2), "{kind:?}, {before:?}, {now:?}");
                    assert!(now.reason.is_some_and(|why| why.contains("shorter than 512 bytes")), "{kind:?}");
                } else {
                    assert!(in_place.iter().all(|&frames| frames > FRAMES / 2), "{kind:?}, {before:?}, {now:?}");
                    assert!(now.zero_copy, "{kind:?}: {now:?}");
                }
            }
            nothing_dropped(&millrace);
            millrace.stop();
        }
    }
    Ok(())
}

/// Trials go from the one way to the other while frames flow, and lose none.
#[test]
fn the_switch_tries_both_ways_and_loses_nothing() -> Result<()> {
    for bridged in [false, true] {
        let (home, line) = (Home::new(), Line::new(e2e::wire::Kind::VirtioUser, bridged)?);
        let joined = if bridged {
            file((mapping("wan", "fw"), bridge("br0", ["wan", "fw"])))
        } else {
            file(pass_through("wan", "fw"))
        };
        let millrace = line.switch(&home, (joined, e2e::poller()));
        let guests = [Options::new(home.socket("fw")).connect()?, line.wire.guest("far")?];
        millrace.wait_mapped();
        // A guest has 256 buffers. Its queue keeps some of them, and the guest has as many as are in flight until it posts them again.
        let mut exchange = Exchange::new(guests, [1, 2], 60..=100, 64);
        // Most machines find time for a trial in the first of these.
        for _ in 0..20 {
            exchange.run(20_000, e2e::SOON)?;
            let mapping = millrace.mapping();
            assert!(mapping.measured, "{mapping:?}");
            if mapping.copied > 0 && mapping.sent_copied > 0 {
                break;
            }
        }
        nothing_dropped(&millrace);
        millrace.stop();
    }
    Ok(())
}
