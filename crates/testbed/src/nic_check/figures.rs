//! Figures that a report has.

use serde::Serialize;

/// The end of a guest.
#[derive(Clone, Debug, Serialize)]
pub struct Drain {
    /// Whether frames were received into its buffers until it left.
    pub flowed: bool,
    /// Whether all buffers came back.
    pub back: bool,
    /// Milliseconds until all buffers were back.
    pub milliseconds: f64,
    /// The switch's words for what it had to stop for that.
    pub stopped: Option<String>,
    /// Whether its memory was written to after that.
    pub written: bool,
}

/// Says what had to be stopped.
pub fn stopped(drains: &[Drain]) -> String {
    let mut words: Vec<&str> =
        drains.iter().map(|drain| drain.stopped.as_deref().unwrap_or("nothing was stopped")).collect();
    words.sort_unstable();
    words.dedup();
    words.join(" or ")
}

/// Rates at all sizes.
#[derive(Clone, Debug, Serialize)]
pub struct Rates {
    /// Rounds, each with all sizes mapped and all sizes copied.
    pub rounds: u32,
    /// Seconds of each measurement.
    pub seconds: f64,
    /// Whether parts had to share processors, which blurs rates.
    pub shared: bool,
    /// One for each size.
    pub rows: Vec<Rate>,
}

/// Rates of frames of one size.
#[derive(Clone, Debug, Serialize)]
pub struct Rate {
    /// Their length.
    pub bytes: u16,
    /// Received into the guest's buffers, and sent from there if the driver can.
    pub mapped: Figures,
    /// Copied both ways.
    pub copied: Figures,
    /// Frames mapped for each one copied, within a round: median, least, greatest.
    pub ratio: [f64; 3],
}

/// Medians over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Millions of frames per second that went there and back.
    pub mpps: f64,
    /// Cycles of the switch for each frame.
    pub cycles: f64,
    /// Share of its cycles in which the switch found nothing to do: it is not the limit then.
    pub idle: f64,
    /// Share of received frames that were in the guest's buffers.
    pub in_place: f64,
    /// Frames lost or changed, in all rounds together.
    pub errors: u64,
}
