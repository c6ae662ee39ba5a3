//! The steps of `cargo xtask test` and of `cargo xtask verify`. Each is in a lane: lanes run side by side, and the steps of one
//! lane one after the other.

use crate::account::{Account, Tests};
use crate::binaries;
use crate::command::Context;
use crate::cost::Cost;
use crate::durations::Durations;
use crate::failure::Failure;
use crate::shelf::Shelf;
use crate::since::Reach;
use crate::tier::Tier;
use crate::tools::{Need, prepare};
use crate::{arm64, dependencies, dpdk_current, fuzz, instructions, passt_current, platforms, proofs};
use std::time::{Duration, Instant};

/// Seconds for all fuzzers, two or three each: enough to see that they run and to find obvious breakage.
const FUZZ_SECONDS: u32 = 30;

/// State that the steps of a run share.
struct Shared {
    shelf: Shelf,
    reach: Reach,
}

struct Step {
    name: &'static str,
    about: &'static str,
    tier: Tier,
    lane: usize,
    needs: &'static [Need],
    run: fn(&Context, &Shared) -> Result<(), Failure>,
}

const STEPS: &[Step] = &[
    Step { name: "fmt", about: "formatting", tier: Tier::Test, lane: 0, needs: &[], run: fmt },
    Step { name: BUILD, about: "all programs and tests", tier: Tier::Test, lane: 0, needs: &[], run: build },
    Step {
        name: "clippy",
        about: "lints, all targets, warnings denied",
        tier: Tier::Test,
        lane: 0,
        needs: &[],
        run: clippy,
    },
    Step {
        name: "doc",
        about: "documentation, warnings denied, and its examples",
        tier: Tier::Test,
        lane: 0,
        needs: &[],
        run: doc,
    },
    Step {
        name: TEST,
        about: "unit, integration and end-to-end tests, from the first that is built on",
        tier: Tier::Test,
        lane: 1,
        needs: &[Need::Packages, Need::HugePages, Need::NoAutogroups],
        run: |context, shared| binaries::run(context, &shared.shelf),
    },
    Step {
        name: "miri",
        about: "rings, frames and batches under Miri",
        tier: Tier::Verify,
        lane: 0,
        needs: &[Need::Miri],
        run: |context, _| proofs::miri(context),
    },
    Step {
        name: "fuzz",
        about: "every fuzzer for a few seconds",
        tier: Tier::Verify,
        lane: 0,
        needs: &[Need::Fuzzer],
        run: |context, _| fuzz::run(context, FUZZ_SECONDS),
    },
    Step {
        name: "instructions",
        about: "instructions a packet, compared with the baseline",
        tier: Tier::Verify,
        lane: 1,
        needs: &[Need::Valgrind],
        run: |context, _| instructions::compare(context),
    },
    Step {
        name: "loom",
        about: "models of state that threads share without locks",
        tier: Tier::Verify,
        lane: 0,
        needs: &[],
        run: |context, _| proofs::loom(context),
    },
    Step {
        name: "platforms",
        about: "builds for arm64 and for musl, and tests of frames and rings on an emulated arm64",
        tier: Tier::Verify,
        lane: 1,
        needs: &[Need::Platforms],
        run: |context, _| platforms::check(context),
    },
    Step {
        name: "arm64-machine",
        about: "demonstration and tests of the ground floor on emulated arm64 with two sizes of pages; only if named",
        tier: Tier::Verify,
        lane: 1,
        needs: &[Need::Machines],
        run: |context, _| arm64::check(context),
    },
    Step {
        name: "product",
        about: "lints of the program as users build it, without features for measurements",
        tier: Tier::Verify,
        lane: 0,
        needs: &[],
        run: product,
    },
    Step {
        name: "dependencies",
        about: "licences, duplicates, sources and advisories of dependencies",
        tier: Tier::Verify,
        lane: 1,
        needs: &[Need::Deny],
        run: |context, _| dependencies::check(context),
    },
    Step {
        name: "dpdk-current",
        about: "tests with DPDK's guests, of the DPDK of Debian 13; only if named",
        tier: Tier::Verify,
        lane: 1,
        needs: &[Need::Packages, Need::NoAutogroups],
        run: |context, _| dpdk_current::check(context),
    },
    Step {
        name: "passt-current",
        about: "a guest and a host connect through passt of Debian 13, a vhost-user backend; only if named",
        tier: Tier::Verify,
        lane: 1,
        needs: &[Need::Packages],
        run: |context, _| passt_current::check(context),
    },
];

/// The lane of the steps of [`Tier::Test`] that compile.
const COMPILER: usize = 0;

/// The step that builds the programs for the step [`TEST`].
const BUILD: &str = "build";
const TEST: &str = "test";

/// Steps that run only if they are named: they download packages of another Debian, and one emulates machines for many minutes.
const ON_REQUEST: [&str; 3] = ["arm64-machine", "dpdk-current", "passt-current"];

/// Selection of a tier's steps.
pub struct Selection<'s> {
    pub tier: Tier,
    pub only: &'s [String],
    pub skip: &'s [String],
    pub reach: Reach,
}

impl Selection<'_> {
    /// Reports whether nothing is left out that runs unless it is named.
    fn is_whole(&self) -> bool {
        self.only.is_empty() && self.skip.is_empty() && matches!(self.reach, Reach::All)
    }

    fn steps(&self) -> Result<Vec<&'static Step>, Failure> {
        let all: Vec<&Step> = STEPS.iter().filter(|step| step.tier == self.tier).collect();
        for name in self.only.iter().chain(self.skip) {
            if !all.iter().any(|step| step.name == name) {
                let command = self.tier.command();
                return Err(format!("`{command}` has no step {name}; `{command} --list` lists them").into());
            }
        }
        let named = |list: &[String], name: &str| list.iter().any(|one| one == name);
        let wanted = |name: &str| {
            let asked = named(self.only, name) || self.only.is_empty() && !ON_REQUEST.contains(&name);
            asked && !named(self.skip, name) && self.reach.needs(name)
        };
        // Tests that are to run have to be built.
        Ok(all.into_iter().filter(|step| wanted(step.name) || step.name == BUILD && wanted(TEST)).collect())
    }
}

/// The outcome of a step.
struct Outcome {
    name: &'static str,
    cost: Cost,
    account: Account,
    done: Result<(), Failure>,
}

/// Prints the steps of a tier.
pub fn list(tier: Tier) {
    for step in STEPS.iter().filter(|step| step.tier == tier) {
        println!("{:15}{}", step.name, step.about);
    }
}

/// Runs the selected steps, all of them even if one fails, and sums up.
pub fn run(context: &Context, selection: Selection<'_>) -> Result<(), Failure> {
    let (steps, is_whole) = (selection.steps()?, selection.is_whole());
    let shared = &Shared { shelf: Shelf::new(Durations::stored(context)?), reach: selection.reach };
    let began = Instant::now();
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let lanes = [0, 1].map(|lane| {
            let steps = steps.iter().filter(move |step| step.lane == lane);
            let context = context.another();
            scope.spawn(move || {
                let outcomes = steps.map(|step| step.run(&context, shared)).collect::<Vec<_>>();
                if lane == COMPILER {
                    shared.shelf.end_compiler();
                }
                outcomes
            })
        });
        lanes.into_iter().flat_map(|lane| lane.join().expect("it does not panic")).collect()
    });
    sum_up(context, &outcomes, began.elapsed(), selection.tier, is_whole)
}

/// Prints how long everything took, and how many tests passed.
fn sum_up(context: &Context, outcomes: &[Outcome], all: Duration, tier: Tier, is_whole: bool) -> Result<(), Failure> {
    let (stored, mut now) = (Durations::stored(context)?, Durations::default());
    let mut line = |name: &str, cost| {
        now.add(name, cost);
        stored.line(name, cost)
    };
    println!("\n  time  busy  step (busy: how many processors it kept busy)");
    for Outcome { name, cost, account, done } in outcomes {
        let step = line(name, *cost).unwrap_or_else(|| format!("{cost}  {name}"));
        println!("{step}{}", done.as_ref().map_or_else(|failure| format!(" FAILED: {failure}"), |()| String::new()));
        let mut parts = account.costs.clone();
        parts.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.time()));
        parts.iter().filter_map(|(part, cost)| line(part, *cost)).for_each(|line| println!("    {line}"));
    }
    let whole = tier.command();
    let all = Cost::new(all, outcomes.iter().map(|outcome| outcome.cost.processor_time()).sum());
    println!("{}", line(whole, all).unwrap_or_else(|| format!("{all}  {whole}")));
    let failed = outcomes.iter().filter(|outcome| outcome.done.is_err()).count();
    now.keep(context, tier, is_whole && failed == 0)?;
    let tests = outcomes.iter().map(|outcome| outcome.account.tests).sum::<Tests>();
    println!("{} passed, {} failed", tests.passed, tests.failed);
    if failed == 0 { Ok(()) } else { Err(format!("{failed} of {} steps failed", outcomes.len()).into()) }
}

impl Step {
    fn run(&self, context: &Context, shared: &Shared) -> Outcome {
        println!("==> {}: {}", self.name, self.about);
        let began = Instant::now();
        let done = prepare(context, self.needs).and_then(|()| (self.run)(context, shared));
        match &done {
            Ok(()) => println!("==> {} is done", self.name),
            Err(failure) => println!("==> {} FAILED: {failure}", self.name),
        }
        let account = std::mem::take(&mut *context.account());
        Outcome { name: self.name, cost: Cost::new(began.elapsed(), account.processor_time()), account, done }
    }
}

fn fmt(context: &Context, _: &Shared) -> Result<(), Failure> {
    context.cargo(&["fmt", "--all", "--check"]).run()?;
    context.cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]).run()
}

fn build(context: &Context, shared: &Shared) -> Result<(), Failure> {
    binaries::build(context, &shared.shelf, &shared.reach)
}

fn clippy(context: &Context, _: &Shared) -> Result<(), Failure> {
    context
        .cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"])
        .named("cargo clippy")
        .run()
}

fn product(context: &Context, _: &Shared) -> Result<(), Failure> {
    context.cargo(&["clippy", "--package", "millrace", "--", "-D", "warnings"]).run()
}

fn doc(context: &Context, _: &Shared) -> Result<(), Failure> {
    // With the features that lints have: both use what is checked of dependencies.
    let words = ["doc", "--workspace", "--no-deps", "--all-features"];
    context.cargo(&words).env("RUSTDOCFLAGS", "-Dwarnings").named("cargo doc").run()?;
    context.cargo(&["test", "--workspace", "--doc"]).run()
}
