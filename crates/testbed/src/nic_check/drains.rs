//! Guests that leave while frames flow.

use super::figures::{Drain, stopped};
use super::flow::{Flow, SIZES};
use super::report::{Answers, Question, Verdict};
use super::rig::Rig;
use crate::record::rounded;
use lab::Result;
use lab::guest::{Guest, Source};
use std::time::{Duration, Instant};

/// Frames in a guest's buffers before it leaves.
const FRAMES: u64 = 50;

/// Steps of a flow between two looks at the counters.
const STEPS: usize = 64;

/// Time without a known source of frames after which a guest leaves.
const QUIET: Duration = Duration::from_millis(200);

/// Time in which something may still write to a guest's memory after its buffers are back.
const AFTER: Duration = Duration::from_millis(20);

/// Drains, and what else was seen.
pub struct Drains {
    /// One for each guest.
    pub all: Vec<Drain>,
    /// The guest at the other end.
    pub far: Option<Guest>,
    /// Why there are fewer than there should be.
    pub trouble: Option<String>,
    /// The fault of a frame.
    pub wrong: Option<String>,
}

/// Ends guests, one after the other. Frames are waited for only if they `arrive`.
pub fn run(rig: &mut Rig, far: Option<Guest>, arrive: bool) -> Result<Drains> {
    let limit = if arrive { rig.patience() } else { QUIET };
    let mut drains = Drains { all: Vec::new(), far, trouble: None, wrong: None };
    for _ in 0..rig.options().guests {
        if let Err(down) = rig.open()? {
            drains.trouble = Some(down);
            break;
        }
        let near = rig.near()?;
        let mapping = rig.mapped()?;
        if !mapping.zero_copy {
            drains.trouble = mapping.reason;
            break;
        }
        let flow = Flow::begin(rig, near, drains.far.take());
        let (flow, flowed) = fill(rig, flow, mapping.in_place, limit)?;
        drains.wrong = drains.wrong.or(flow.wrong().map(str::to_owned));
        let (near, mut far) = flow.part();
        let drain = leave(rig, near, &mut far, flowed)?;
        drains.far = far;
        let back = drain.back;
        drains.all.push(drain);
        if !back {
            break;
        }
    }
    Ok(drains)
}

/// Has frames flow until some are in the guest's buffers. Returns false if none come.
fn fill(rig: &mut Rig, flow: Flow, before: u64, limit: Duration) -> Result<(Flow, bool)> {
    let (mut flow, arrives) = flow.arrives(rig, limit)?;
    let began = Instant::now();
    while arrives && flow.wrong().is_none() && began.elapsed() < limit {
        (0..STEPS).for_each(|_| flow.step(u64::MAX));
        if rig.mapping()?.in_place > before + FRAMES {
            return Ok((flow, true));
        }
    }
    Ok((flow, false))
}

/// Ends a guest, to which frames are still sent, and looks at its memory.
fn leave(rig: &mut Rig, near: Guest, far: &mut Option<Guest>, flowed: bool) -> Result<Drain> {
    let mark = rig.mark();
    let mut source = Source::new(rig.number(), rig.number(), SIZES);
    let memory = near.leave();
    let began = Instant::now();
    let back = loop {
        send(far, &mut source)?;
        let mapping = rig.mapping()?;
        if mapping.on_loan == 0 && !mapping.zero_copy {
            break true;
        }
        if began.elapsed() > rig.patience() {
            break false;
        }
    };
    let milliseconds = rounded(began.elapsed().as_secs_f64() * 1e3, 1);
    let (then, since) = (memory(), Instant::now());
    while since.elapsed() < AFTER {
        send(far, &mut source)?;
        lab::cpu::rest();
    }
    let written = back && memory() != then;
    Ok(Drain { flowed, back, milliseconds, stopped: rig.stopped(mark), written })
}

/// Sends to a guest that has left, and takes what it has sent.
fn send(far: &mut Option<Guest>, source: &mut Source) -> Result<()> {
    let Some(far) = far else { return Ok(()) };
    far.reap()?;
    while source.send(far)? {}
    far.flush();
    far.receive(usize::MAX, |_| Ok(())).map(drop)
}

/// Answers what the drains answer.
pub fn answer(drains: &Drains, answers: &mut Answers) {
    let Drains { all, trouble, wrong, .. } = drains;
    if let Some(wrong) = wrong {
        answers.set(Question::BytesRight, Verdict::No, format!("while guests left, {wrong}"));
    }
    let count = all.len();
    let trouble = trouble.as_deref().unwrap_or_default();
    if count == 0 {
        answers.set(Question::BuffersBack, Verdict::Open, trouble);
        return answers.set(Question::MemoryUntouched, Verdict::Open, trouble);
    }
    let back = all.iter().filter(|drain| drain.back).count();
    let quiet = all.iter().filter(|drain| !drain.flowed).count();
    let quiet = if quiet > 0 { format!(", of which {quiet} got no frames") } else { String::new() };
    let longest = all.iter().map(|drain| drain.milliseconds).fold(0.0, f64::max);
    let seen = format!("{back} of {count} guests that left{quiet}, within {longest:.0} ms, for which {}", stopped(all));
    // A port that does not come back has no guest any more.
    let (verdict, seen) = match trouble {
        "" => (Verdict::of(back as u64, count as u64), seen),
        why => (Verdict::Partly, format!("{seen}; then no guest could come: {why}")),
    };
    answers.set(Question::BuffersBack, verdict, seen);
    // Nothing is written where no frame comes.
    let count = all.iter().filter(|drain| drain.flowed || drain.written).count();
    let untouched = all.iter().filter(|drain| drain.flowed && drain.back && !drain.written).count();
    let seen = match count {
        0 => "no guest got a frame before it left".to_owned(),
        _ => format!(
            "nothing was written to {untouched} of {count} guests' memory after that, within {} ms",
            AFTER.as_millis()
        ),
    };
    answers.set(Question::MemoryUntouched, Verdict::of(untouched as u64, count as u64), seen);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(stopped: Option<&str>) -> Drain {
        let stopped = stopped.map(str::to_owned);
        Drain { flowed: true, back: true, milliseconds: 12.4, stopped, written: false }
    }

    fn answered(all: Vec<Drain>, trouble: Option<&str>) -> Answers {
        let mut answers = Answers::default();
        let drains = Drains { all, far: None, trouble: trouble.map(str::to_owned), wrong: None };
        answer(&drains, &mut answers);
        answers
    }

    #[test]
    fn what_was_stopped_is_said_once() {
        let stopped = Some("the device was stopped");
        let answers = answered(vec![drain(stopped), drain(None), drain(stopped)], None);
        let seen = &answers.get(Question::BuffersBack).unwrap().seen;
        assert_eq!(
            seen,
            "3 of 3 guests that left, within 12 ms, for which nothing was stopped or the device was stopped"
        );
    }

    #[test]
    fn buffers_that_stay_and_memory_that_changes_are_faults() {
        let kept = Drain { back: false, flowed: false, ..drain(None) };
        let answers = answered(vec![drain(None), kept], Some("the link of device x is down"));
        let answer = answers.get(Question::BuffersBack).unwrap();
        assert_eq!(answer.answer, Verdict::Partly);
        assert!(
            answer.seen.contains("1 got no frames") && answer.seen.ends_with("the link of device x is down"),
            "{}",
            answer.seen
        );
        let answers = answered(vec![Drain { written: true, ..drain(None) }], None);
        assert_eq!(answers.get(Question::MemoryUntouched).unwrap().answer, Verdict::No);
        assert!(answers.has_faults());
        let answers = answered(Vec::new(), Some("it is not mapped"));
        let answer = answers.get(Question::BuffersBack).unwrap();
        assert_eq!((answer.answer, answer.seen.as_str()), (Verdict::Open, "it is not mapped"));
    }

    #[test]
    fn memory_that_no_frame_came_to_says_nothing() {
        let quiet = || Drain { flowed: false, ..drain(None) };
        let untouched = |all| answered(all, None).get(Question::MemoryUntouched).unwrap().clone();
        let answer = untouched(vec![quiet(), quiet()]);
        assert_eq!((answer.answer, answer.seen.as_str()), (Verdict::Open, "no guest got a frame before it left"));
        let answer = untouched(vec![quiet(), drain(None)]);
        assert!(answer.answer == Verdict::Yes && answer.seen.contains("to 1 of 1 guests"), "{}", answer.seen);
        assert_eq!(untouched(vec![Drain { written: true, ..quiet() }]).answer, Verdict::No);
    }

    #[test]
    fn a_port_that_does_not_come_back_is_a_fault() {
        assert!(answered(vec![drain(None)], Some("the link of device x is down")).has_faults());
    }

    #[test]
    fn bytes_that_were_right_before_may_be_wrong_now() {
        let mut answers = Answers::default();
        answers.set(Question::BytesRight, Verdict::Yes, "2 of 2 frames");
        let wrong = Some("a frame: number 7 differs".to_owned());
        answer(&Drains { all: vec![drain(None)], far: None, trouble: None, wrong }, &mut answers);
        let answer = answers.get(Question::BytesRight).unwrap();
        assert!(answer.answer == Verdict::No && answer.seen.contains("number 7"), "{}", answer.seen);
    }
}
