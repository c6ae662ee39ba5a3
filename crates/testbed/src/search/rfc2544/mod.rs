//! The tests of RFC 2544 §26 that apply to a switch: throughput, latency, frame loss rate and back-to-back frames, the last as RFC
//! 9004 updates it. Not here: system recovery and reset, which need hands.

mod back_to_back;
mod frame_loss;
mod latency;
mod table;

pub use back_to_back::{BackToBack, BurstFigures, Bursts};
pub use frame_loss::FrameLoss;
pub use latency::{LatencyFigures, LatencyTrials};
pub use table::report;

use super::{Found, Goal, Limits, Search, TrialRequest, conduct};
use crate::search::record::{Ended, Trial};
use loadgen::app::Size;

/// Settings of all tests. Their defaults are those that RFC 2544 asks for; they take an hour or two for
/// each frame size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Goal of the search for the throughput (§26.1).
    pub throughput: Goal,
    /// Greatest effort of that search.
    pub limits: Limits,
    /// Number of latency trials (§26.2).
    pub latency_trials: usize,
    /// Seconds of each of these.
    pub latency_seconds: f64,
    /// Difference between the rates of the frame loss test, as a share of the greatest rate: at most 0.1 (§26.3).
    pub loss_step: f64,
    /// Seconds of each of its trials.
    pub loss_seconds: f64,
    /// The search for the longest burst (§26.4).
    pub bursts: Bursts,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            throughput: Goal::RFC2544,
            limits: Limits { trials: 200, seconds: 7200.0 },
            latency_trials: 20,
            latency_seconds: 120.0,
            loss_step: 0.1,
            loss_seconds: 60.0,
            bursts: Bursts { repetitions: 50, step: 16, limit: 1 << 20, verify: 1 },
        }
    }
}

/// Results for one frame size.
#[derive(Clone, Debug, PartialEq)]
pub struct Tested {
    /// Bytes of a frame.
    pub size: Size,
    /// The greatest rate: of the medium if there is one, else that which the load can reach.
    pub max: f64,
    /// Throughput.
    pub throughput: Found,
    /// Latency at the throughput; `None` if there is no throughput, or no latency was measured.
    pub latency: Option<LatencyFigures>,
    /// The trials of the frame loss test, from the greatest rate downwards.
    pub frame_loss: Vec<Trial>,
    /// Back-to-back frames; `None` if the throughput is the greatest rate: no burst is too long then (RFC 9004 §6.1).
    pub bursts: Option<BurstFigures>,
}

impl Tested {
    /// Returns the time for which the switch's buffers hold back-to-back frames, without those that it forwards meanwhile, in
    /// seconds: RFC 9004's corrected buffer time.
    pub fn buffer_seconds(&self) -> Option<f64> {
        let implied = self.bursts.as_ref()?.average / self.max;
        Some(implied - implied * self.throughput.bounds[0] / self.max)
    }
}

/// Makes all tests with one frame size. The greatest rate is in packets per second.
pub fn test<E>(
    size: Size,
    max: f64,
    settings: &Settings,
    mut trial: impl FnMut(&TrialRequest) -> Result<Trial, E>,
) -> Result<Tested, E> {
    let search = Search::new(max, [settings.throughput], settings.limits);
    let [throughput] = conduct(search, &mut trial)?.found;
    let rate = throughput.bounds[0];
    let latency = match settings.latency_trials {
        trials if rate > 0.0 => conduct(LatencyTrials::new(rate, settings.latency_seconds, trials), &mut trial)?,
        _ => None,
    };
    let frame_loss = conduct(FrameLoss::new(max, settings.loss_step, settings.loss_seconds), &mut trial)?;
    let bursts = match throughput.ended {
        Ended::LoadLimit => None,
        _ => conduct(BackToBack::new(settings.bursts), &mut trial)?,
    };
    Ok(Tested { size, max, throughput, latency, frame_loss, bursts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::simulated::Simulated;
    use loadgen::app::Latency;
    use std::convert::Infallible;

    #[test]
    fn all_tests_follow_from_trials() {
        let mut switch = Simulated { buffer: 256.0, load: 4e6, ..Simulated::new(1e6) };
        let settings =
            Settings { bursts: Bursts { repetitions: 3, step: 1, limit: 1 << 16, verify: 0 }, ..Default::default() };
        let mut requests = Vec::new();
        let Ok(tested) = test(Size::Bytes(64), 4e6, &settings, |request| {
            requests.push(*request);
            let latency = Some(Latency { mean: 2000.0, p99: 9000.0, ..Latency::default() });
            Ok::<_, Infallible>(Trial { latency, ..switch.trial(request) })
        });
        let [lower, upper] = tested.throughput.bounds;
        assert!(lower <= 1.0001e6 && upper >= 1e6 && upper - lower <= 0.01 * upper, "{:?}", tested.throughput);
        let at_throughput = |request: &&TrialRequest| **request == TrialRequest::Rate { rate: lower, seconds: 120.0 };
        assert_eq!(requests.iter().filter(at_throughput).count(), 20);
        assert_eq!(tested.frame_loss.len(), 10);
        // While a burst comes at 4 million frames a second, a quarter of it leaves; the rest fits into the buffer.
        let bursts = tested.bursts.unwrap();
        assert!((bursts.average - 256.0 * 4.0 / 3.0).abs() <= 3.0, "{bursts:?}");
        assert!((tested.buffer_seconds().unwrap() - 256.0 / 4e6).abs() < 2e-6, "{:?}", tested.buffer_seconds());
        let text = report(&[tested]);
        for expected in ["26.1", "26.2", "26.3", "26.4", "2.0", "75.000", "342.0", "0.000064"] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
        println!("{text}");
    }

    #[test]
    fn a_switch_as_fast_as_the_load_has_no_longest_burst_and_one_that_always_loses_no_latency() {
        let settings = Settings { bursts: Bursts { limit: 64, ..Settings::default().bursts }, ..Settings::default() };
        let mut fast = Simulated { load: 1e6, ..Simulated::new(2e6) };
        let Ok(fast) = test(Size::Imix, 1e6, &settings, |request| Ok::<_, Infallible>(fast.trial(request)));
        assert_eq!((fast.throughput.ended, fast.bursts.as_ref(), fast.frame_loss.len()), (Ended::LoadLimit, None, 2));
        let mut lossy = Simulated { loses: 0.5, load: 1e6, ..Simulated::new(2e6) };
        let Ok(lossy) = test(Size::Bytes(1518), 1e6, &settings, |request| Ok::<_, Infallible>(lossy.trial(request)));
        assert_eq!((lossy.throughput.ended, lossy.latency), (Ended::AlwaysLost, None));
        assert_eq!((lossy.frame_loss.len(), lossy.bursts.as_ref().unwrap().average), (10, 0.0));
        let text = report(&[fast, lossy]);
        for expected in ["or more", "lost at every rate", "imix"] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
    }
}
