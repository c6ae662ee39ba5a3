//! Measurement of one setup: each part in turn has a processor to itself, and all the others share another one.

use super::super::rig::RigError;
use super::super::turns::{self, Processors, Step, TurnError, median};
use super::rig::{Rig, WINDOW};
use super::setup::{Setup, Way};
use loadgen::load::{Header, Misused, Nothing, Payload, Port, Touch, TouchLevel};

/// A part that has a processor to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// One of the functions, which sends its own frames and takes those of the other.
    Function,
    /// The switch, which has one worker for both ways.
    Switch,
}

/// Cycles per frame of the function and of the switch; frames of both ways count.
pub struct Cycles {
    pub function: f64,
    pub switch: f64,
}

/// Turns that do not count: until all descriptors and buffers have been used several times.
const WARM_UP: usize = 16;

/// Measures `turns` turns of `setup`; `alone` has a processor to itself, or all parts share one.
pub fn measure(
    setup: &Setup,
    way: Way,
    alone: Option<Part>,
    processors: Processors,
    turns: usize,
) -> Result<Cycles, TurnError> {
    let measure = match setup.touch {
        TouchLevel::None => measure_with::<Nothing>,
        TouchLevel::Header => measure_with::<Header>,
        TouchLevel::Payload => measure_with::<Payload>,
    };
    measure(setup, way, alone, processors, turns)
}

fn measure_with<T: Touch>(
    setup: &Setup,
    way: Way,
    alone: Option<Part>,
    Processors { alone: apart, others }: Processors,
    turns: usize,
) -> Result<Cycles, TurnError> {
    let Rig { functions: [mut a, mut b], mut there, mut back, group } = Rig::new(setup, way)?;
    let mut first = || Ok(function::<T>(&mut a)?);
    let mut to_second = || {
        while there.round() {}
        Ok(())
    };
    let mut second = || Ok(function::<T>(&mut b)?);
    let mut to_first = || {
        while back.round() {}
        Ok(())
    };
    let [function, other, switch] = match alone {
        None => [apart; 3],
        Some(Part::Function) => [apart, others, others],
        Some(Part::Switch) => [others, others, apart],
    };
    let steps = vec![
        Step { cpu: function, work: &mut first },
        Step { cpu: switch, work: &mut to_second },
        Step { cpu: other, work: &mut second },
        Step { cpu: switch, work: &mut to_first },
    ];
    let cycles = turns::run(steps, WARM_UP + turns)?;
    // The frames that the second function sends in its first turn are the first that come back.
    for (port, turns) in [(&a, WARM_UP + turns - 1), (&b, WARM_UP + turns)] {
        let (counts, wanted) = (port.counts(), turns as u64 * u64::from(WINDOW));
        if counts.received != wanted || counts.corrupt + counts.lost + counts.late > 0 {
            return Err(RigError::Wrong { received: counts.received, wanted, corrupt: counts.corrupt }.into());
        }
    }
    if let Some(group) = group {
        let wanted = (WARM_UP + turns) as u64 * u64::from(WINDOW);
        let exchanged = [(0, 1), (1, 0)].map(|(from, to)| group.counts(from, to).exchanged());
        if exchanged != [wanted; 2] {
            return Err(RigError::NotExchanged { copied: 2 * wanted - exchanged.iter().sum::<u64>() }.into());
        }
    }
    let per_frame = |step: usize| median(&cycles[step][WARM_UP..]) / f64::from(2 * WINDOW);
    Ok(Cycles { function: per_frame(0), switch: per_frame(1) + per_frame(3) })
}

/// A function's turn: it takes the frames that came, and sends as many of its own as may be in flight.
fn function<T: Touch>(port: &mut Port) -> Result<(), Misused> {
    let mut room = u64::from(WINDOW);
    loop {
        let received = port.receive::<T>()?;
        let sent = port.send::<T>(room)?;
        room -= sent;
        if received + sent == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring_format::RingFormat;

    #[test]
    fn frames_of_both_ways_come_whole() {
        // Both on the first processor, which is always there.
        let one = Processors { alone: 0, others: 0 };
        for ring in [RingFormat::Split, RingFormat::Packed] {
            for (size, touch) in [(64, TouchLevel::Header), (1518, TouchLevel::Payload), (9014, TouchLevel::Payload)] {
                for way in Way::ALL {
                    for alone in [None, Some(Part::Function), Some(Part::Switch)] {
                        let cycles = measure(&Setup { ring, size, touch }, way, alone, one, 10).unwrap();
                        assert!(cycles.function > 0.0 && cycles.switch > 0.0, "{ring}, {size} B, {way}");
                    }
                }
            }
        }
    }
}
