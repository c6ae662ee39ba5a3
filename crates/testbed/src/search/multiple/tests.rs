//! Searches with simulated switches.

use super::*;
use crate::search::conduct;
use crate::search::simulated::Simulated;
use proptest::prelude::*;
use std::convert::Infallible;

const MAX: f64 = 10e6;

fn searched(switch: &mut Simulated) -> Outcome<2> {
    let search = Search::new(MAX, [Goal::NDR, Goal::PDR], Limits::default());
    let Ok(outcome) = conduct(search, |request| Ok::<_, Infallible>(switch.trial(request)));
    outcome
}

/// Checks that a goal's bounds are close, and that the true rate lies between them, or nearly: a trial loses whole packets.
fn assert_brackets(found: &Found, rate: f64, slack: f64) {
    let [lower, upper] = found.bounds;
    assert_eq!(found.ended, Ended::Found, "{found:?}");
    assert!(lower <= rate * (1.0 + slack) && upper >= rate * (1.0 - slack), "{rate}: {found:?}");
    assert!(upper - lower <= Goal::NDR.width * upper, "{found:?}");
    assert!(found.throughput > 0.0 && found.throughput <= lower, "{found:?}");
}

#[test]
fn an_exact_capacity_is_found() {
    let mut most = (0, 0.0_f64);
    for capacity in [20e3, 330e3, 1e6, 3_333_333.0, 9.9e6] {
        let outcome = searched(&mut Simulated::new(capacity));
        assert_brackets(&outcome.found[0], capacity, 1e-4);
        assert_brackets(&outcome.found[1], capacity / 0.995, 1e-4);
        let seconds = outcome.trials.iter().map(|trial| trial.seconds).sum();
        most = (most.0.max(outcome.trials.len()), most.1.max(seconds));
    }
    println!("at most {} trials, {:.0} s", most.0, most.1);
    assert!(most.0 <= 60 && most.1 <= 45.0, "{most:?}");
}

#[test]
fn the_first_trial_is_short_and_as_fast_as_possible() {
    let search = Search::new(MAX, [Goal::NDR, Goal::PDR], Limits::default());
    assert_eq!(search.next(), Some(TrialRequest::Rate { rate: MAX, seconds: Goal::NDR.initial }));
    assert_eq!(search.next(), search.next());
}

#[test]
fn a_capacity_that_varies_is_found_within_its_variation() {
    for random in 0..100 {
        let switch = Simulated { varies: 0.05, random, ..Simulated::new(4e6) };
        let outcome = searched(&mut switch.clone());
        assert_brackets(&outcome.found[0], 4e6, 0.05);
        assert_brackets(&outcome.found[1], 4e6 / 0.995, 0.05);
    }
}

#[test]
fn rare_bursts_of_loss_do_not_move_the_bounds() {
    let mut near = 0;
    for random in 0..100 {
        let switch = Simulated { bursts: 10, random, ..Simulated::new(4e6) };
        let [ndr, _] = searched(&mut switch.clone()).found;
        // Never too high. Most of the trials at one rate seldom have a burst, so seldom too low.
        assert!(ndr.bounds[0] <= 4e6 * 1.0001, "{ndr:?}");
        near += u32::from(ndr.bounds[0] >= 4e6 * 0.98);
    }
    println!("{near} of 100 searches were not misled");
    assert!(near >= 95, "{near}");
}

#[test]
fn a_tiny_constant_loss_counts_for_ndr_only() {
    let switch = Simulated { loses: 1e-3, ..Simulated::new(4e6) };
    let Outcome { found: [ndr, pdr], .. } = searched(&mut switch.clone());
    assert!(ndr.bounds[0] < 100e3, "{ndr:?}");
    // Each packet counts twice: 0.1 % is lost anyway.
    assert_brackets(&pdr, 4e6 / 0.996, 1e-3);
    assert!((pdr.throughput - 4e6).abs() < 4e6 * 0.02, "{pdr:?}");
}

#[test]
fn a_switch_that_always_loses_has_no_rate() {
    let outcome = searched(&mut Simulated { loses: 0.2, ..Simulated::new(4e6) });
    for found in outcome.found {
        assert_eq!(found, Found { bounds: [0.0, FLOOR * MAX], throughput: 0.0, ended: Ended::AlwaysLost });
    }
    assert!(outcome.trials.len() < 60, "{}", outcome.trials.len());
}

#[test]
fn the_load_can_be_the_limit() {
    for (load, limit) in [(f64::INFINITY, MAX), (3e6, 3e6)] {
        let outcome = searched(&mut Simulated { load, ..Simulated::new(20e6) });
        for found in outcome.found {
            assert_eq!(found, Found { bounds: [limit; 2], throughput: limit, ended: Ended::LoadLimit });
        }
        assert!(outcome.trials.len() <= 15, "{}", outcome.trials.len());
    }
    // A load that sends nothing.
    let mut search = Search::new(MAX, [Goal::NDR], Limits::default());
    while search.next().is_some() {
        search.report(Trial { rate: MAX, offered: 0.0, seconds: 1.0, loss: f64::NAN, latency: None });
    }
    let Outcome { found: [found], trials } = search.finish();
    assert_eq!((found.bounds, found.ended, trials.len()), ([0.0, 0.0], Ended::LoadLimit, SHORTFALLS));
}

#[test]
fn a_load_that_is_held_up_now_and_then_is_no_limit() {
    for random in 0..100 {
        let switch = Simulated { held_up: 20, load: 8e6, random, ..Simulated::new(4e6) };
        let outcome = searched(&mut switch.clone());
        assert_brackets(&outcome.found[0], 4e6, 1e-4);
    }
}

#[test]
fn the_effort_is_limited_and_the_bounds_so_far_are_kept() {
    let mut last = f64::INFINITY;
    for trials in [0, 1, 4, 8, 12] {
        let search = Search::new(MAX, [Goal::NDR, Goal::PDR], Limits { trials, seconds: 1000.0 });
        let mut switch = Simulated::new(3e6);
        let Ok(outcome) = conduct(search, |request| Ok::<_, Infallible>(switch.trial(request)));
        let Found { bounds: [lower, upper], ended, .. } = outcome.found[0];
        assert_eq!((outcome.trials.len(), ended), (trials, Ended::Effort));
        assert!(lower <= 3e6 * 1.0001 && upper >= 3e6 && upper - lower <= last, "{:?}", outcome.found);
        last = upper - lower;
    }
    assert!(last < 0.2 * 3e6, "{last}");
    let search = Search::new(MAX, [Goal::RFC2544], Limits { trials: 1000, seconds: 100.0 });
    let mut switch = Simulated::new(3e6);
    let Ok(outcome) = conduct(search, |request| Ok::<_, Infallible>(switch.trial(request)));
    assert!(outcome.trials.iter().map(|trial| trial.seconds).sum::<f64>() <= 100.0);
}

#[test]
fn a_trial_that_fails_ends_the_search() {
    let search = Search::new(MAX, [Goal::NDR], Limits::default());
    assert_eq!(conduct(search, |_| Err::<Trial, _>("no switch")), Err("no switch"));
}

proptest! {
    #[test]
    fn bounds_bracket_the_capacity(capacity in 0.002..0.99, buffer in 0.0..500.0) {
        let capacity = capacity * MAX;
        let outcome = searched(&mut Simulated { buffer, ..Simulated::new(capacity) });
        // A switch carries its buffer once more in each trial of a second.
        let slack = 1e-4 + buffer / capacity;
        assert_brackets(&outcome.found[0], capacity, slack);
        assert_brackets(&outcome.found[1], capacity / 0.995, slack);
        prop_assert!(outcome.trials.len() <= 80, "{}", outcome.trials.len());
    }

    #[test]
    fn every_search_ends(
        (capacity, varies, loses) in (0.0..2e7, 0.0..0.9, prop_oneof![Just(0.0), 0.0..1.0]),
        (bursts, load, held_up, random) in (0..5_u32, prop_oneof![Just(f64::INFINITY), 0.0..2e7], 0..4_u32, any::<u64>()),
    ) {
        let switch = Simulated { capacity, varies, loses, bursts, buffer: 0.0, load, held_up, random };
        let outcome = searched(&mut switch.clone());
        prop_assert!(outcome.trials.len() <= Limits::default().trials);
        for Found { bounds: [lower, upper], throughput, ended } in outcome.found {
            prop_assert!(0.0 <= lower && lower <= upper && upper <= MAX);
            prop_assert!(0.0 <= throughput && throughput <= lower);
            prop_assert!(ended != Ended::Found || (lower > 0.0 && upper - lower <= Goal::NDR.width * upper));
        }
    }
}
