//! Search for the greatest rates that meet several goals at once (multiple loss ratio search, RFC 9971).
//!
//! The RFC says when a rate is a bound, and leaves it open which rate is tried next. Here each goal is approached in phases
//! ([`Goal::of_phase`]): the first has short trials of which one decides, the last has the goal's own. A phase first tries the bounds
//! of the one before, the lower one first: a rate that loses packets makes all higher rates that did not lose any void. Beyond
//! known bounds, rates grow or fall by steps that double; between them, the middle is tried. Every trial counts for all goals.

use super::goal::{Goal, PHASES};
use super::load::{Bound, Load};
use super::{Series, TrialRequest};
use crate::search::record::{Ended, Searched, Trial};

/// Least rate that is tried, as a share of the greatest.
const FLOOR: f64 = 1e-3;
/// Share of the rate asked for below which a load fell short of it.
const REACHED: f64 = 0.99;
/// Trials in a row whose load falls short of a rate, before that counts as the load's limit: a single one may have been held up.
const SHORTFALLS: usize = 3;

/// Greatest effort of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Trials.
    pub trials: usize,
    /// Seconds of all trials.
    pub seconds: f64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { trials: 200, seconds: 180.0 }
    }
}

/// Result for one goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Greatest rate that meets the goal, below all rates that miss it, and least rate that misses it.
    pub bounds: [f64; 2],
    /// Packets per second that come through at the lower bound (conditional throughput).
    pub throughput: f64,
    /// Reason why the search ended, and with it the meaning of the bounds.
    pub ended: Ended,
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<const GOALS: usize> {
    /// Results for each goal.
    pub found: [Found; GOALS],
    /// Every trial, in order.
    pub trials: Vec<Trial>,
}

impl From<Outcome<2>> for Searched {
    /// Takes the outcome of a search with the goals [`Goal::NDR`] and [`Goal::PDR`].
    fn from(Outcome { found: [ndr, pdr], trials }: Outcome<2>) -> Searched {
        Searched {
            ndr: ndr.bounds,
            pdr: pdr.bounds,
            throughput: [ndr.throughput, pdr.throughput],
            ended: [ndr.ended, pdr.ended],
            trials,
        }
    }
}

/// State of a search.
#[derive(Clone, Debug)]
pub struct Search<const GOALS: usize> {
    goals: [Goal; GOALS],
    progress: [Progress; GOALS],
    limits: Limits,
    /// Greatest rate that the load can reach, as far as known, and the least that is tried.
    top: f64,
    floor: f64,
    /// Rates that were tried, in order.
    loads: Vec<Load>,
    /// The next trial: its rate and seconds.
    next: Option<(f64, f64)>,
    /// Rates that the load reached in the last trials, if it fell short of the one asked for.
    shortfalls: Vec<f64>,
    trials: Vec<Trial>,
    seconds: f64,
}

/// State of the search for one goal.
#[derive(Clone, Debug, Default)]
struct Progress {
    phase: usize,
    /// Bounds of the phase before.
    before: Bounds,
    /// Rates to be decided in this phase.
    rates: Vec<f64>,
    /// Size of the next step beyond known bounds, relative to the rate.
    step: f64,
}

/// Relevant bounds (RFC 9971), as far as known: the least upper bound, and the greatest lower one below it.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    lower: Option<f64>,
    upper: Option<f64>,
}

impl Bounds {
    fn encloses(&self, rate: f64) -> bool {
        self.lower.is_none_or(|lower| lower < rate) && self.upper.is_none_or(|upper| rate < upper)
    }
}

impl<const GOALS: usize> Search<GOALS> {
    /// Begins a search. `max` is the greatest rate to try, above 0: the load's own maximum, or more.
    pub fn new(max: f64, goals: [Goal; GOALS], limits: Limits) -> Search<GOALS> {
        let mut search = Search {
            goals,
            progress: std::array::from_fn(|_| Progress::default()),
            limits,
            top: max,
            floor: FLOOR * max,
            loads: Vec::new(),
            next: None,
            shortfalls: Vec::new(),
            trials: Vec::new(),
            seconds: 0.0,
        };
        (0..GOALS).for_each(|goal| search.enter(goal, 0));
        search.next = search.choose();
        search
    }

    fn target(&self, goal: usize) -> Goal {
        self.goals[goal].of_phase(self.progress[goal].phase)
    }

    fn bounds(&self, target: &Goal) -> Bounds {
        let of = |bound| self.loads.iter().filter(move |load| load.bound(target) == bound).map(|load| load.rate);
        let upper = of(Bound::Upper).next();
        Bounds { lower: of(Bound::Lower).take_while(|&rate| upper.is_none_or(|upper| rate < upper)).last(), upper }
    }

    /// Returns how the bounds of a target settle it, if they do.
    fn settled(&self, target: &Goal, bounds: Bounds) -> Option<Ended> {
        match bounds {
            Bounds { lower: Some(lower), upper: Some(upper) } => {
                (upper - lower <= target.width * upper).then_some(Ended::Found)
            }
            Bounds { lower: Some(lower), upper: None } => (lower >= self.top).then_some(Ended::LoadLimit),
            Bounds { lower: None, upper: Some(upper) } => (upper <= self.floor).then_some(Ended::AlwaysLost),
            Bounds { lower: None, upper: None } => (self.top < self.floor).then_some(Ended::LoadLimit),
        }
    }

    /// Begins a phase of a goal with the bounds of the one before.
    fn enter(&mut self, goal: usize, phase: usize) {
        let before = if phase == 0 { Bounds::default() } else { self.bounds(&self.target(goal)) };
        let rates = before.lower.into_iter().chain(before.upper).collect();
        let step = 2.0 * self.goals[goal].of_phase(phase).width;
        self.progress[goal] = Progress { phase, before, rates, step };
    }

    /// Returns the next trial: of the first phase in which a goal is not settled. Further trials can unsettle a goal again.
    fn choose(&mut self) -> Option<(f64, f64)> {
        for phase in 0..PHASES {
            for goal in 0..GOALS {
                if self.progress[goal].phase != phase {
                    continue;
                }
                let target = self.target(goal);
                let bounds = self.bounds(&target);
                if self.settled(&target, bounds).is_none() {
                    let rate = self.rate(goal, bounds);
                    let affordable =
                        self.trials.len() < self.limits.trials && self.seconds + target.seconds <= self.limits.seconds;
                    return affordable.then_some((rate, target.seconds));
                }
                if phase + 1 < PHASES {
                    self.enter(goal, phase + 1);
                }
            }
        }
        None
    }

    /// Returns a rate that is still to be decided for a goal.
    fn rate(&mut self, goal: usize, bounds: Bounds) -> f64 {
        let open = |rate: &&f64| bounds.encloses(**rate) && **rate <= self.top;
        if let Some(&rate) = self.progress[goal].rates.iter().find(open) {
            return rate;
        }
        let step = self.progress[goal].step;
        let rate = match bounds {
            Bounds { lower: None, upper: None } => self.top,
            Bounds { lower: Some(lower), upper: None } => (lower * (1.0 + step)).min(self.top),
            // The packets that came through are a good guess at the rate without loss, most of all far above it.
            Bounds { lower: None, upper: Some(upper) } => {
                let forwarded = self.loads.iter().find(|load| load.rate == upper).map_or(0.0, Load::forwarded);
                forwarded.min(upper * (1.0 - step.min(0.5))).max(self.floor)
            }
            Bounds { lower: Some(lower), upper: Some(upper) } => (lower * (1.0 + step)).min((lower + upper) / 2.0),
        };
        self.progress[goal].step *= 2.0;
        self.progress[goal].rates.push(rate);
        rate
    }

    /// Takes the results of a trial at a rate.
    fn add(&mut self, rate: f64, seconds: f64, loss: f64) {
        let at = self.loads.partition_point(|load| load.rate < rate);
        if self.loads.get(at).is_none_or(|load| load.rate != rate) {
            self.loads.insert(at, Load::new(rate));
        }
        self.loads[at].add(seconds, loss);
    }

    /// Reports whether a trial's load reached the rate that was asked for. If it falls short several times, its best rate is the
    /// limit from then on, unless it reached higher ones before; then the trial counts as it is.
    fn is_reached(&mut self, rate: f64, offered: f64) -> bool {
        if offered >= REACHED * rate {
            self.shortfalls.clear();
            return true;
        }
        self.shortfalls.push(offered);
        if self.shortfalls.len() < SHORTFALLS {
            return false;
        }
        let before = self.loads.last().map_or(0.0, |load| load.rate);
        let best = self.shortfalls.drain(..).fold(before, f64::max);
        if rate > before {
            self.top = best;
        }
        rate <= before
    }

    fn found(&self, goal: usize) -> Found {
        let Progress { phase, before, .. } = self.progress[goal].clone();
        let target = self.target(goal);
        let bounds = self.bounds(&target);
        let ended = self.settled(&target, bounds).filter(|_| phase + 1 == PHASES).unwrap_or(Ended::Effort);
        // Bounds of the phase before stand in for those that this one has not decided.
        let upper = bounds.upper.or(before.upper.filter(|&upper| bounds.encloses(upper)));
        let (lower, judge) = match (bounds.lower, before.lower.filter(|&lower| bounds.encloses(lower))) {
            (Some(lower), _) => (lower, target),
            (None, Some(lower)) => (lower, self.goals[goal].of_phase(phase - 1)),
            (None, None) => (0.0, target),
        };
        let throughput = self.loads.iter().find(|load| load.rate == lower).map_or(0.0, |load| load.throughput(&judge));
        Found { bounds: [lower, upper.unwrap_or(self.top).max(lower)], throughput, ended }
    }
}

impl<const GOALS: usize> Series for Search<GOALS> {
    type Figures = Outcome<GOALS>;

    fn next(&self) -> Option<TrialRequest> {
        self.next.map(|(rate, seconds)| TrialRequest::Rate { rate, seconds })
    }

    /// A trial counts with the rate and the seconds that were asked for.
    fn report(&mut self, trial: Trial) {
        let (rate, seconds) = self.next.expect("a trial was asked for");
        self.trials.push(trial);
        self.seconds += seconds.max(trial.seconds);
        if self.is_reached(rate, trial.offered) {
            self.add(rate, seconds, trial.loss);
        }
        self.next = self.choose();
    }

    fn finish(self) -> Outcome<GOALS> {
        Outcome { found: std::array::from_fn(|goal| self.found(goal)), trials: self.trials }
    }
}

#[cfg(test)]
mod tests;
