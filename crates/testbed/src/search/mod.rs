//! Searches and series of trials: the next trial to make, and the figures that follow from all of them. No code here sends
//! packets, or reads a clock.

mod goal;
mod load;
mod multiple;
mod record;
pub mod rfc2544;
#[cfg(test)]
mod simulated;

pub use goal::Goal;
pub use multiple::{Found, Limits, Search};
pub use record::{Searched, Trial};

/// A trial to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrialRequest {
    /// Packets at a constant rate.
    Rate {
        /// Packets per second of each sender.
        rate: f64,
        /// Seconds.
        seconds: f64,
    },
    /// One burst, as fast as packets are taken; then nothing, until all that the switch holds has come out (RFC 9004 §6.2: at
    /// least 2 seconds).
    Burst {
        /// Packets of the burst.
        frames: u64,
    },
}

/// Trials, each of which may depend on those before it.
pub trait Series {
    /// The figures that follow from the trials.
    type Figures;

    /// Returns the next trial; `None` if there is none.
    fn next(&self) -> Option<TrialRequest>;

    /// Takes the results of the trial that [`Series::next`] returned.
    fn report(&mut self, trial: Trial);

    /// Evaluates the trials made so far.
    fn finish(self) -> Self::Figures;
}

/// Makes all trials of a series, and evaluates them.
pub fn conduct<S: Series, E>(
    mut series: S,
    mut trial: impl FnMut(&TrialRequest) -> Result<Trial, E>,
) -> Result<S::Figures, E> {
    while let Some(request) = series.next() {
        series.report(trial(&request)?);
    }
    Ok(series.finish())
}
