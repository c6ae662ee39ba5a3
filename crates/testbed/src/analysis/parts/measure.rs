//! Measurement of one setup: each part in turn has a processor to itself, and all the others share another one.

use super::super::rig::{Rig, RigError, without_switch};
use super::super::setup::Setup;
use super::super::turns::{self, Processors, Step, TurnError, median};
use engine::worker::ByHand;
use loadgen::load::{Header, Nothing, Payload, Touch, TouchLevel};
use std::fmt;

/// A part of the data path, in the order of their turns. The paper's figure 8 gives the last three a processor each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The NIC: hardware elsewhere.
    Nic,
    /// The switch, from the NIC to the network function.
    Receive,
    /// The network function.
    Function,
    /// The switch, from the network function to the NIC.
    Transmit,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Nic => "NIC",
            Part::Receive => "SW_R",
            Part::Function => "NF",
            Part::Transmit => "SW_T",
        })
    }
}

/// Measures `turns` turns of `setup`, with the switch between NIC and function or without one; `alone` has a processor to
/// itself, or all parts share one. Returns the cycles per frame of each part.
pub fn measure(
    setup: &Setup,
    has_switch: bool,
    alone: Option<Part>,
    processors: Processors,
    turns: usize,
) -> Result<[f64; 4], TurnError> {
    let measure = match setup.touch {
        TouchLevel::None => measure_with::<Nothing>,
        TouchLevel::Header => measure_with::<Header>,
        TouchLevel::Payload => measure_with::<Payload>,
    };
    measure(setup, has_switch, alone, processors, turns)
}

fn measure_with<T: Touch>(
    setup: &Setup,
    has_switch: bool,
    alone: Option<Part>,
    processors: Processors,
    turns: usize,
) -> Result<[f64; 4], TurnError> {
    let (mut nic, mut function, mut there, mut back) = if has_switch {
        let Rig { nic, function, there, back, .. } = Rig::new(setup, setup.pattern.is_sound())?;
        (nic, function, Some(there), Some(back))
    } else {
        let (nic, function) = without_switch(setup)?;
        (nic, function, None, None)
    };
    let window = setup.window().into();
    let warm_up = warm_up(setup);
    let mut received = Vec::with_capacity(warm_up + turns);
    let mut wire = || {
        while nic.turn::<T>(window)? > 0 {}
        received.push(nic.counts().received);
        Ok(())
    };
    let mut receive = || {
        while there.as_mut().is_some_and(ByHand::round) {}
        Ok(())
    };
    let mut work = || {
        while function.turn::<T>()? > 0 {}
        Ok(())
    };
    let mut transmit = || {
        while back.as_mut().is_some_and(ByHand::round) {}
        Ok(())
    };
    let on = |part| if alone.is_none_or(|alone| alone == part) { processors.alone } else { processors.others };
    let steps = vec![
        Step { cpu: on(Part::Nic), work: &mut wire },
        Step { cpu: on(Part::Receive), work: &mut receive },
        Step { cpu: on(Part::Function), work: &mut work },
        Step { cpu: on(Part::Transmit), work: &mut transmit },
    ];
    let cycles = turns::run(steps, warm_up + turns)?;
    let frames = per_turn(&received, warm_up, nic.counts().corrupt)?;
    let mut figures = [0.0; 4];
    figures.iter_mut().zip(&cycles).for_each(|(figure, cycles)| *figure = median(&cycles[warm_up..]) / frames);
    Ok(figures)
}

/// Returns the number of turns that do not count: until all descriptors and buffers have been used twice.
fn warm_up(setup: &Setup) -> usize {
    let Setup { physical, guest, .. } = setup;
    let longest = [physical.receive, physical.transmit, guest.receive, guest.transmit].into_iter().max();
    2 * usize::from(longest.unwrap_or_default()) / usize::from(setup.window()) + 8
}

/// Returns the frames of a turn, which all turns after the first ones have.
fn per_turn(received: &[u64], warm_up: usize, corrupt: u64) -> Result<f64, RigError> {
    let turns: Vec<u64> = received.windows(2).skip(warm_up - 1).map(|pair| pair[1] - pair[0]).collect();
    let frames = median(&turns);
    let whole = corrupt == 0 && frames > 0.0;
    let wrong = RigError::Wrong { received: received.last().copied().unwrap_or_default(), wanted: 1, corrupt };
    if whole { Ok(frames) } else { Err(wrong) }
}

#[cfg(test)]
mod tests {
    use super::super::super::pattern::Pattern;
    use super::*;
    use crate::ring_format::RingFormat;
    use clap::ValueEnum;
    use vhost_user::frontend::QueueSizes;

    const SIZES: QueueSizes = QueueSizes { receive: 256, transmit: 256 };
    /// Both on the first processor, which is always there.
    const ONE: Processors = Processors { alone: 0, others: 0 };

    fn setup(pattern: Pattern, ring: RingFormat) -> Setup {
        Setup { pattern, ring, size: 512, touch: TouchLevel::Payload, physical: SIZES, guest: SIZES }
    }

    #[test]
    fn every_part_of_every_pattern_is_measured() {
        for &pattern in Pattern::value_variants() {
            for ring in [RingFormat::Split, RingFormat::Packed] {
                let cycles = measure(&setup(pattern, ring), true, Some(Part::Receive), ONE, 10).unwrap();
                assert!(cycles.iter().all(|&cycles| cycles > 0.0), "{pattern}, {ring}: {cycles:?}");
            }
        }
    }

    #[test]
    fn the_function_is_measured_without_a_switch() {
        for ring in [RingFormat::Split, RingFormat::Packed] {
            let cycles = measure(&setup(Pattern::A, ring), false, Some(Part::Function), ONE, 10).unwrap();
            assert!(cycles[Part::Function as usize] > 0.0, "{ring}: {cycles:?}");
        }
    }
}
