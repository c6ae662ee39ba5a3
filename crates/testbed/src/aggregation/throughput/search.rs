//! Search for the load with the greatest throughput. An overloaded node spends its time on packets that it drops, most of all
//! where aggregates are split before they are dropped, so the greatest load is not the best one.

/// Maximum number of times that a load is halved.
const HALVES: usize = 5;
/// Steps between a carried load and twice as much.
const BETWEEN: usize = 2;
/// Upper bound of the best throughput, relative to the throughput under the greatest load.
const BEYOND: f64 = 16.0;
/// Loads that are tried around the best one, relative to its throughput.
const AROUND: [f64; 3] = [0.95, 1.05, 1.2];
/// Share of a load that must come through for the load to count as carried.
pub const CARRIED: f64 = 0.97;

/// The loads that are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Loads {
    /// Those that find the greatest throughput
    Search,
    /// As much as can be sent, and nothing else: whether packets come through, and not how many
    Max,
}

impl Loads {
    /// Tries the loads. A load is in packets per second; `None` is as much as can be sent.
    pub fn of_first_round<T: Tried, E>(self, mut load: impl FnMut(Option<u64>) -> Result<T, E>) -> Result<Vec<T>, E> {
        match self {
            Loads::Search => search(load),
            Loads::Max => Ok(vec![load(None)?]),
        }
    }

    /// Tries those of any round: the first one finds the best load, and each tries loads around the best throughput of the round
    /// before, in millions of packets per second.
    pub fn of_round<T: Tried, E>(
        self,
        before: Option<f64>,
        mut load: impl FnMut(Option<u64>) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        if self == Loads::Max {
            return self.of_first_round(load);
        }
        let mut tried = if before.is_none() { search(&mut load)? } else { Vec::new() };
        let found = before.or(best(&tried).map(Tried::through)).unwrap_or_default();
        for rate in around(found) {
            tried.push(load(rate)?);
        }
        Ok(tried)
    }
}

/// Results of one load, in millions of packets per second.
pub trait Tried {
    /// Returns the packets sent.
    fn sent(&self) -> f64;
    /// Returns the packets that came out.
    fn through(&self) -> f64;

    /// Reports whether all, or nearly all, packets came out.
    fn is_carried(&self) -> bool {
        self.through() >= CARRIED * self.sent()
    }
}

/// Tries as much as can be sent, halves it until that is carried, and then searches in between.
fn search<T: Tried, E>(mut load: impl FnMut(Option<u64>) -> Result<T, E>) -> Result<Vec<T>, E> {
    let mut tried = vec![load(None)?];
    if tried[0].is_carried() {
        return Ok(tried);
    }
    let mut too_much = tried[0].sent().min(BEYOND * tried[0].through());
    let mut carried = None;
    for _ in 0..HALVES {
        let step = load(packets(too_much / 2.0))?;
        let is_carried = step.is_carried();
        // A load below the best throughput so far cannot beat it.
        let best = best(&tried).map_or(0.0, Tried::through).max(step.through());
        tried.push(step);
        if is_carried || too_much / 2.0 < best {
            carried = Some(too_much / 2.0);
            break;
        }
        too_much /= 2.0;
    }
    if let Some(mut carried) = carried {
        for _ in 0..BETWEEN {
            let middle = (carried * too_much).sqrt();
            let step = load(packets(middle))?;
            *(if step.is_carried() { &mut carried } else { &mut too_much }) = middle;
            tried.push(step);
        }
    }
    Ok(tried)
}

/// Returns the loads around a throughput in millions of packets per second, and the unlimited load.
fn around(through: f64) -> impl Iterator<Item = Option<u64>> {
    AROUND.into_iter().map(move |share| packets(share * through)).chain([None])
}

fn packets(millions: f64) -> Option<u64> {
    Some((millions * 1e6).max(1.0) as u64)
}

/// Returns the result with the greatest throughput.
pub fn best<T: Tried>(tried: &[T]) -> Option<&T> {
    tried.iter().max_by(|a, b| a.through().total_cmp(&b.through()))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Tried for (f64, f64) {
        fn sent(&self) -> f64 {
            self.0
        }

        fn through(&self) -> f64 {
            self.1
        }
    }

    /// Searches with a node that carries `most`; beyond that it carries ever less, but never nothing; at most `sent` can be
    /// sent.
    fn node(most: f64, sent: f64) -> Vec<(f64, f64)> {
        let load = |rate: Option<u64>| {
            let sent = rate.map_or(sent, |rate| rate as f64 / 1e6).min(sent);
            Ok::<_, ()>((sent, if sent <= most { sent } else { (most - (sent - most) / 10.0).max(most / 8.0) }))
        };
        search(load).unwrap()
    }

    #[test]
    fn the_best_load_is_found_nearly() {
        for (most, sent) in [(3.0, 50.0), (9.0, 13.0), (0.9, 40.0), (49.0, 50.0)] {
            let tried = node(most, sent);
            let found = best(&tried).unwrap().1;
            assert!((0.85 * most..=most).contains(&found), "{found} of {most}: {tried:?}");
            assert!(tried.len() <= 1 + HALVES + BETWEEN);
        }
    }

    #[test]
    fn loads_around_the_best_follow_a_node_that_changes() {
        let mut through: f64 = 2.0;
        for most in [2.2, 3.0, 1.5] {
            for _ in 0..4 {
                let carried = |rate: Option<u64>| rate.map_or(0.5, |rate| rate as f64 / 1e6).min(most);
                through = around(through).map(carried).fold(0.0, f64::max);
            }
            assert!((0.95 * most..=most).contains(&through), "{through} of {most}");
        }
    }

    #[test]
    fn a_node_that_carries_the_full_load_is_not_measured_again() {
        assert_eq!(node(60.0, 50.0), [(50.0, 50.0)]);
    }
}
