//! Numbers as a reader sees them.

use crate::statistics::Estimate;

/// Writes three digits that count, and never fewer than a whole number has.
pub fn digits(value: f64) -> String {
    let places = match value.abs() {
        size if size >= 99.95 || size == 0.0 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        _ => 3,
    };
    format!("{value:.places$}")
}

/// Writes a median and its interval, if there is one.
pub fn estimate(estimate: &Estimate) -> String {
    let Estimate { median, low, high, rounds } = *estimate;
    let [ends @ .., median] = [low, high, median].map(digits);
    if rounds < 2 { median } else { format!("{median} ({} to {})", ends[0], ends[1]) }
}

/// Writes a number with its noun, such as `1 run` and `2 runs`.
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        let written = [0.0, 0.3384, 1.0, 9.999, 12.34, 99.96, 1234.5].map(digits);
        assert_eq!(written, ["0", "0.338", "1.00", "10.0", "12.3", "100", "1234"]);
    }

    #[test]
    fn one_round_has_no_interval() {
        assert_eq!(estimate(&Estimate::of([2.0]).unwrap()), "2.00");
        assert_eq!(estimate(&Estimate::of([2.0, 3.0, 1.0]).unwrap()), "2.00 (1.00 to 3.00)");
    }
}
