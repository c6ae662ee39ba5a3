//! Measures the length from which exchanging the pages of a burst is faster than copying its frames.
//!
//! Both ways, the sender writes the first line of each frame before, and the receiver reads it afterwards: so an exchange
//! pays for the page faults that follow it.

use crate::{Device, Error, Leftovers, Mapping, PAGE, Pair};
use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Lengths that are tried, in bytes.
const LENGTHS: [u16; 4] = [1024, 2048, 3072, 3900];
/// Frames of a burst.
const FRAMES: u32 = 32;
/// Bursts of each length that are exchanged, and as many that are copied.
const BURSTS: usize = 21;
/// Words of a line.
const LINE: usize = 8;

/// Returns the length in bytes from which on exchanges take less time than copies, or [`u32::MAX`] if not even those of the
/// longest frames that were tried do. Takes some milliseconds.
pub fn threshold(device: &Device) -> Result<u32, Error> {
    let areas = [device.create(FRAMES, Leftovers::Zeroed)?, device.create(FRAMES, Leftovers::Zeroed)?];
    let map = |area: usize| areas[area].map(0, FRAMES);
    // Those of the functions, and those of the switch.
    let (own, switch) = ([map(0)?, map(1)?], [map(0)?, map(1)?]);
    let pairs = |len| -> [Pair; FRAMES as usize] {
        std::array::from_fn(|page| Pair { here: page as u32, there: page as u32, start: 0, len })
    };
    let burst = |send: &dyn Fn() -> Result<(), Error>| -> Result<Duration, Error> {
        let began = Instant::now();
        touch(&own[0], true);
        send()?;
        // The switch writes the headers.
        touch(&switch[1], true);
        touch(&own[1], false);
        Ok(began.elapsed())
    };
    let mut least = u32::MAX;
    for len in LENGTHS.into_iter().rev() {
        let pairs = pairs(len);
        let exchange = || areas[0].exchange(&areas[1], &pairs).map(|_| ());
        let copy = || {
            (0..FRAMES as usize).for_each(|page| switch[1].copy_from(page, &switch[0], page, len.into()));
            Ok(())
        };
        let mut times = [const { Vec::new() }; 2];
        for _ in 0..BURSTS {
            times[0].push(burst(&exchange)?);
            // Pages that an exchange took out of page tables come back before copies are measured.
            burst(&copy)?;
            times[1].push(burst(&copy)?);
        }
        let [exchanged, copied] = times.map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2]
        });
        if exchanged >= copied {
            break;
        }
        least = len.into();
    }
    Ok(least)
}

/// Writes or reads the first line of each page.
fn touch(mapping: &Mapping, writes: bool) {
    for page in 0..mapping.pages() {
        for (at, word) in mapping.page(page)[..LINE].iter().enumerate() {
            match writes {
                true => word.store((at * PAGE) as u64, Ordering::Relaxed),
                false => _ = black_box(word.load(Ordering::Relaxed)),
            }
        }
    }
}
