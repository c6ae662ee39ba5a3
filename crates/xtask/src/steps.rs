//! The steps of `cargo xtask test`. Those that need the machine run one after the other, fast failures first; the
//! others beside them, on the processors left over.

use crate::command::{Account, Context, Failure, Tests};
use crate::tools::{Need, prepare};
use crate::{binaries, dependencies, fuzz, instructions};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Seconds for each fuzzer: enough to see that it runs and to find obvious breakage.
const FUZZ_SECONDS: u32 = 3;

/// Shortest program time that is listed within a step.
const WORTH_A_LINE: Duration = Duration::from_secs(2);

struct Step {
    name: &'static str,
    about: &'static str,
    lane: Lane,
    needs: &'static [Need],
    run: fn(&Context) -> Result<(), Failure>,
}

/// A lane of steps, which run one after the other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// Shared builds, and tests that need the machine. These come first.
    Main,
    /// Lanes beside the main one and beside each other.
    Aside(u8),
}

const STEPS: &[Step] = &[
    Step { name: "fmt", about: "formatting", lane: Lane::Main, needs: &[], run: fmt },
    Step { name: "clippy", about: "lints, all targets, warnings denied", lane: Lane::Main, needs: &[], run: clippy },
    Step { name: "doc", about: "documentation builds, warnings denied", lane: Lane::Main, needs: &[], run: doc },
    Step {
        name: "test",
        about: "unit, integration and end-to-end tests",
        lane: Lane::Main,
        needs: &[Need::Packages, Need::HugePages],
        run: binaries::run,
    },
    Step {
        name: "miri",
        about: "rings, frames and batches under Miri",
        lane: Lane::Aside(0),
        needs: &[Need::Miri],
        run: miri,
    },
    Step {
        name: "dependencies",
        about: "licences, duplicates, sources and advisories of what is depended on",
        lane: Lane::Aside(0),
        needs: &[Need::Deny],
        run: dependencies::check,
    },
    Step {
        name: "loom",
        about: "models of what threads share without locks",
        lane: Lane::Aside(1),
        needs: &[],
        run: loom,
    },
    Step {
        name: "instructions",
        about: "instructions a packet, compared with the baseline",
        lane: Lane::Aside(1),
        needs: &[Need::Valgrind],
        run: instructions::compare,
    },
    Step {
        name: "fuzz",
        about: "every fuzzer for a few seconds",
        lane: Lane::Aside(0),
        needs: &[Need::Fuzzer],
        run: fuzz_shortly,
    },
];

/// The outcome of a step.
struct Outcome {
    name: &'static str,
    time: Duration,
    account: Account,
    done: Result<(), Failure>,
}

/// Prints the steps.
pub fn list() {
    for step in STEPS {
        println!("{:14}{}", step.name, step.about);
    }
}

/// Runs the selected steps, all of them even if one fails, and sums up.
pub fn run(context: &Context, only: &[String], skip: &[String]) -> Result<(), Failure> {
    for name in only.iter().chain(skip) {
        if !STEPS.iter().any(|step| step.name == name) {
            return Err(format!("there is no step {name}; `cargo xtask test --list` lists them").into());
        }
    }
    let named = |list: &[String], step: &Step| list.iter().any(|name| name == step.name);
    let wanted = |step: &&Step| (only.is_empty() || named(only, step)) && !named(skip, step);
    let steps: Vec<&Step> = STEPS.iter().filter(wanted).collect();
    let began = Instant::now();
    let lane = |lane: Lane| steps.iter().filter(move |step| step.lane == lane);
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let gives_way = Arc::new(AtomicBool::new(lane(Lane::Main).next().is_some()));
        let aside = [0, 1].map(|number| {
            let context = context.aside(&gives_way);
            scope.spawn(move || lane(Lane::Aside(number)).map(|step| step.run(&context)).collect::<Vec<_>>())
        });
        let main: Vec<Outcome> = lane(Lane::Main).map(|step| step.run(context)).collect();
        context.stop_giving_way(&gives_way);
        main.into_iter().chain(aside.into_iter().flat_map(|lane| lane.join().expect("it does not panic"))).collect()
    });
    println!("\nstep            time");
    for Outcome { name, time, account, done } in &outcomes {
        println!("{name:14}{:>6}  {}", clock(*time), done.as_ref().map_or_else(Failure::to_string, |()| "ok".into()));
        for (part, time) in account.times.iter().filter(|(_, time)| *time >= WORTH_A_LINE) {
            println!("{:14}{:>6}    {part}", "", clock(*time));
        }
    }
    println!("{:14}{:>6}", "all", clock(began.elapsed()));
    let failed = outcomes.iter().filter(|outcome| outcome.done.is_err()).count();
    let tests = outcomes.iter().map(|outcome| outcome.account.tests).sum::<Tests>();
    println!("{} passed, {} failed", tests.passed, tests.failed);
    if failed == 0 { Ok(()) } else { Err(format!("{failed} of {} steps failed", outcomes.len()).into()) }
}

impl Step {
    fn run(&self, context: &Context) -> Outcome {
        println!("==> {}: {}", self.name, self.about);
        let began = Instant::now();
        let done = prepare(context, self.needs).and_then(|()| (self.run)(context));
        match &done {
            Ok(()) => println!("==> {} is done", self.name),
            Err(failure) => println!("==> {} FAILED: {failure}", self.name),
        }
        Outcome { name: self.name, time: began.elapsed(), account: std::mem::take(&mut *context.account()), done }
    }
}

/// Formats minutes and seconds.
fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

fn fmt(context: &Context) -> Result<(), Failure> {
    context.cargo(&["fmt", "--all", "--check"]).run()?;
    context.cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]).run()
}

fn clippy(context: &Context) -> Result<(), Failure> {
    context.cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]).run()?;
    // The program as users build it: without the features that measurements need.
    context.cargo(&["clippy", "--package", "millrace", "--", "-D", "warnings"]).run()
}

fn doc(context: &Context) -> Result<(), Failure> {
    context.cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-Dwarnings").run()
}

/// Runs the loom models in a separate target directory: the flag applies to every crate and would rebuild them all.
fn loom(context: &Context) -> Result<(), Failure> {
    let models = ["--package", "millrace-handover", "--package", "millrace-roles", "--lib", "model"];
    let run = context.cargo(&["test", "--profile", "loom"]).args(&models);
    run.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", context.target("loom")).run()
}

fn miri(context: &Context) -> Result<(), Failure> {
    // Guest memory is accessed by addresses that were integers on the way; files stand in for memory files.
    const FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-permissive-provenance";
    let miri = |package: &str, tests: &[&str]| {
        let run = context.cargo(&["+nightly", "miri", "test", "--package", package]).args(tests);
        run.env("MIRIFLAGS", FLAGS).env("CARGO_TARGET_DIR", context.target("miri")).run()
    };
    miri("millrace-packet", &["--lib", "--", "frame", "copy"])?;
    miri("millrace-roles", &["--lib", "--tests"])?;
    // Those that need memory that two mappings share can't run there.
    let tests = ["aside", "dirty_log", "hostile", "lend", "rings"].map(|test| ["--test", test]);
    miri("millrace-virtqueue", &[&["--lib"], tests.as_flattened()].concat())
}

fn fuzz_shortly(context: &Context) -> Result<(), Failure> {
    fuzz::run(context, FUZZ_SECONDS)
}
