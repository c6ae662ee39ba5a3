//! A network function that sends back what comes, from a NIC that makes frames as fast as the switch takes them.

use super::function::{Connected, Function};
use super::{FunctionOptions, KICK_ROUNDS, PATIENCE, WireError, conditions};
use crate::cpu;
use crate::cycles;
use crate::load::{Accounts, Counts, Header, Nothing, Payload, RUNNING, Report, Tally, Touch, TouchLevel};
use std::time::{Duration, Instant};

/// Connects to the switch, runs, and reports the frames that were sent back. None of them is checked.
pub fn echo(options: &FunctionOptions) -> Result<Report, WireError> {
    let connected = Connected::connect(options)?;
    if let Some(cpu) = options.cpu {
        cpu::pin(cpu)?;
    }
    match options.touch {
        TouchLevel::None => measure::<Nothing>(options, connected),
        TouchLevel::Header => measure::<Header>(options, connected),
        TouchLevel::Payload => measure::<Payload>(options, connected),
    }
}

fn measure<T: Touch>(options: &FunctionOptions, mut connected: Connected) -> Result<Report, WireError> {
    let conditions = conditions(options, &connected);
    let mut echo = Echo { function: &mut connected.function, counts: Counts::default(), tally: Tally::default() };
    let began = Instant::now();
    while echo.counts.received == 0 {
        echo.run::<T>(Duration::from_millis(50))?;
        if began.elapsed() > PATIENCE {
            return Err(WireError::Nothing);
        }
    }
    eprintln!("{RUNNING}");
    echo.run::<T>(Duration::from_secs_f64(options.warmup))?;
    let (before, mark) = (echo.accounts(), cycles::Mark::now());
    echo.run::<T>(Duration::from_secs_f64(options.seconds))?;
    let elapsed = mark.elapsed();
    Ok(Report::between(conditions, elapsed, &before, &echo.accounts()))
}

/// The function, and what it has done.
struct Echo<'f> {
    function: &'f mut Function,
    counts: Counts,
    tally: Tally,
}

impl Echo<'_> {
    fn accounts(&self) -> Accounts {
        Accounts { counts: vec![self.counts], tally: self.tally }
    }

    /// Sends frames back for about this time.
    fn run<T: Touch>(&mut self, time: Duration) -> Result<(), WireError> {
        let duration = (time.as_secs_f64() * cycles::frequency()) as u64;
        let start = cycles::now();
        let (mut last, mut idle) = (start, 0);
        while last.wrapping_sub(start) < duration {
            let moved = self.function.turn::<T>()?;
            self.counts.received += moved;
            let now = cycles::now();
            self.tally.count(moved > 0, now.wrapping_sub(last));
            idle = if moved > 0 { 0 } else { idle + 1 };
            if idle % KICK_ROUNDS == KICK_ROUNDS - 1 {
                self.function.kick();
            }
            last = now;
        }
        Ok(())
    }
}
