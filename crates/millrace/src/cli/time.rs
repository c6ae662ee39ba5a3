//! Times on the command line.

use std::time::Duration;

/// Reads an interval.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    match time(text) {
        Some(interval) if (Duration::from_millis(10)..=Duration::from_secs(86_400)).contains(&interval) => Ok(interval),
        _ => Err("give a time from 10ms to 1day, such as 1s or 500ms".to_owned()),
    }
}

/// Reads how long to wait.
pub(super) fn wait(text: &str) -> Result<Duration, String> {
    time(text).ok_or_else(|| "give a time, such as 5s".to_owned())
}

fn time(text: &str) -> Option<Duration> {
    // A bare number is in seconds, as everywhere else.
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.or_else(|| humantime::parse_duration(text).ok())
}
