//! The data path in one thread, each part in turn and in a function of its own, so that a profile can distinguish them.

use super::super::rig::{Rig, RigError};
use super::super::setup::Setup;
use loadgen::load::{Counts, Header, Nothing, Payload, Touch, TouchLevel};
use std::hint::black_box;

/// Names of the parts, in results and in the profile.
pub const PARTS: [(&str, &str); 4] =
    [("SW_R", "switch_receives"), ("SW_T", "switch_transmits"), ("NF", "function_works"), ("NIC", "nic_works")];
/// The function whose calls of these parts count.
pub const MEASURED: &str = "rounds_measured";

/// Sends `frames` through the rig, after as many that do not count.
pub fn run(setup: &Setup, frames: u64) -> Result<(), RigError> {
    let mut rig = Rig::new(setup, setup.pattern.is_sound())?;
    match setup.touch {
        TouchLevel::None => rig.run::<Nothing>(frames),
        TouchLevel::Header => rig.run::<Header>(frames),
        TouchLevel::Payload => rig.run::<Payload>(frames),
    }
}

impl Rig {
    fn run<T: Touch>(&mut self, frames: u64) -> Result<(), RigError> {
        // Frames from before all buffers were posted are not counted as missing.
        self.rounds_before::<T>(frames)?;
        self.rounds_measured::<T>(self.nic.counts().received + frames)
    }

    // These two differ, or the compiler would merge them.
    #[inline(never)]
    fn rounds_before<T: Touch>(&mut self, until: u64) -> Result<(), RigError> {
        self.rounds::<T>(black_box(until))
    }

    #[inline(never)]
    fn rounds_measured<T: Touch>(&mut self, until: u64) -> Result<(), RigError> {
        let outcome = self.rounds::<T>(until);
        black_box(until);
        outcome
    }

    /// Lets each part in turn do all its work, until `until` frames have come back.
    #[inline(always)]
    fn rounds<T: Touch>(&mut self, until: u64) -> Result<(), RigError> {
        let mut vain = 0;
        loop {
            let before = self.nic.counts();
            if before.received >= until {
                return Ok(());
            }
            self.nic_works::<T>()?;
            self.switch_receives();
            self.function_works::<T>()?;
            self.switch_transmits();
            let Counts { received, corrupt, .. } = self.nic.counts();
            // Lent buffers take one turn to reach the NIC.
            vain = if received == before.received { vain + 1 } else { 0 };
            if vain > 4 || corrupt > 0 {
                return Err(RigError::Wrong { received, wanted: until, corrupt });
            }
        }
    }

    #[inline(never)]
    fn nic_works<T: Touch>(&mut self) -> Result<(), RigError> {
        while self.nic.turn::<T>(self.window)? > 0 {}
        Ok(())
    }

    #[inline(never)]
    fn switch_receives(&mut self) {
        while self.there.round() {}
    }

    #[inline(never)]
    fn function_works<T: Touch>(&mut self) -> Result<(), RigError> {
        while self.function.turn::<T>()? > 0 {}
        Ok(())
    }

    #[inline(never)]
    fn switch_transmits(&mut self) {
        while self.back.round() {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::pattern::Pattern;
    use super::*;
    use crate::ring_format::RingFormat;
    use clap::ValueEnum;
    use vhost_user::frontend::QueueSizes;

    /// Every pattern moves its frames, and those that make all copies move them unchanged.
    #[test]
    fn all_patterns_and_formats_go_round() {
        for &pattern in Pattern::value_variants() {
            for ring in [RingFormat::Split, RingFormat::Packed] {
                for (receive, transmit) in [(64, 64), (1024, 256)] {
                    let sizes = QueueSizes { receive, transmit };
                    let setup =
                        Setup { pattern, ring, size: 512, touch: TouchLevel::Payload, physical: sizes, guest: sizes };
                    let outcome = run(&setup, 5000);
                    assert!(outcome.is_ok(), "{pattern}, {ring}, {receive}: {outcome:?}");
                }
            }
        }
    }

    /// A NIC that compares frames detects an omitted copy.
    #[test]
    fn fakes_are_fakes() {
        for pattern in [Pattern::B, Pattern::C, Pattern::F] {
            let sizes = 64.into();
            let setup = Setup {
                pattern,
                ring: RingFormat::Split,
                size: 512,
                touch: TouchLevel::Payload,
                physical: sizes,
                guest: sizes,
            };
            let mut rig = Rig::new(&setup, true).unwrap();
            assert!(matches!(rig.rounds::<Payload>(1000), Err(RigError::Wrong { .. })), "{pattern}");
        }
    }
}
