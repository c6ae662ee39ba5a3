//! The questions, one after the other.

use super::card::Card;
use super::flow::{Flow, SIZES};
use super::options::NicCheck;
use super::place::{Far, Place, name};
use super::report::{Answers, Question, Report, Verdict};
use super::rig::{Rig, is_link};
use super::{drains, rates};
use crate::machine::Machine;
use engine::stats::MappingStats;
use lab::guest::Guest;
use lab::process::Interrupt;
use lab::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time to see frames of somebody unknown.
const LISTEN: Duration = Duration::from_secs(2);

/// Time after which counters are those of all frames that were seen.
const COUNTED: Duration = Duration::from_millis(50);

/// The reason of answers that frames would give.
const SILENT: &str = "no frame came through: is the cable in, and does the other end answer?";

/// Beginning of the switch's words for a device that does not send from guests' memory.
const LATE: &str = "frames of guests are copied when they are sent";

/// Checks a device, as far as that is possible.
pub fn run(options: &NicCheck, program: &Path, interrupt: &Interrupt) -> Result<Report> {
    let place = Place::find(options)?;
    eprintln!("device {}; other end: {}", place.device, place.about());
    let mut report = Report {
        device: place.device.clone(),
        driver: None,
        card: Card::at(name(&place.device)),
        other_end: place.about(),
        answers: Answers::default(),
        drains: Vec::new(),
        rates: None,
        warnings: BTreeMap::new(),
        machine: Machine::detect(program),
    };
    let mut rig = Rig::start(options, place, program, interrupt)?;
    report.machine.dpdk = rig.dpdk();
    let open = ask(&mut rig, &mut report)?;
    report.answers.finish(&open);
    let warnings = rig.warnings().into_iter();
    // Words after the name of the port are those of an answer.
    let is_new =
        |(words, _): &(String, usize)| !words.split_once(" is down: ").is_some_and(|(_, why)| report.answers.says(why));
    report.warnings = warnings.filter(is_new).collect();
    Ok(report)
}

/// Asks one question after the other; returns the reason why the others are open.
fn ask(rig: &mut Rig, report: &mut Report) -> Result<String> {
    if !opens(rig, report)? {
        return Ok("the port is down".to_owned());
    }
    if let Err(down) = rig.peer_opens()? {
        return Ok(format!("the port at the other end is down: {down}"));
    }
    let (near, far) = (rig.near()?, rig.far()?);
    let mapping = rig.mapped()?;
    let why = mapping.reason.clone().unwrap_or_default();
    let seen = if mapping.zero_copy { "the device has buffers of the guest" } else { &why };
    report.answers.set(Question::Mapped, Verdict::of(mapping.zero_copy.into(), 1), seen);
    let (far, arrives) = frames(rig, report, near, far)?;
    if !mapping.zero_copy {
        return Ok(format!("it is not mapped: {why}"));
    }
    eprintln!("{} guests leave", rig.options().guests);
    let drains = drains::run(rig, far, arrives && rig.place().far != Far::Nobody)?;
    drains::answer(&drains, &mut report.answers);
    report.drains = drains.all;
    // The guest at the other end leaves: its port is the load's now.
    drop(drains.far);
    if rig.place().far == Far::Nobody {
        return Ok("--peer, --looped or --echo says who sends frames".to_owned());
    }
    if arrives && rig.options().rounds > 0 {
        measure(rig, report)?;
    }
    Ok(if arrives { "--rounds 0 measures nothing" } else { SILENT }.to_owned())
}

/// Opens the port, and asks what it is.
fn opens(rig: &Rig, report: &mut Report) -> Result<bool> {
    let answers = &mut report.answers;
    match rig.open()? {
        Ok(detail) => {
            answers.set(Question::Opens, Verdict::Yes, &detail);
            let speed = rig.speed()?.map_or("speed unknown".to_owned(), |speed| format!("{speed} Mbit/s"));
            answers.set(Question::Link, Verdict::Yes, speed);
            let (guarded, seen) = guard(&detail);
            answers.set(Question::Iommu, guarded, seen);
            report.driver = part(&detail, "driver ").map(str::to_owned);
            Ok(true)
        }
        Err(down) if is_link(&down) => {
            answers.set(Question::Opens, Verdict::Yes, "its link is down");
            answers.set(Question::Link, Verdict::No, down);
            Ok(false)
        }
        Err(down) => {
            let hint = report.card.as_ref().filter(|card| card.kernel_driver.as_deref() != Some("vfio-pci"));
            let hint = hint.map_or(String::new(), |card| {
                format!("; vfio-pci does not have it ({card}): `dpdk-devbind.py --bind vfio-pci {}`", report.device)
            });
            answers.set(Question::Opens, Verdict::No, down + &hint);
            Ok(false)
        }
    }
}

/// Returns whether an IOMMU guards memory, by the switch's words on a port.
fn guard(detail: &str) -> (Verdict, &'static str) {
    if detail.contains(", behind an IOMMU") {
        (Verdict::Yes, "it uses the addresses of the switch (IOVA mode VA)")
    } else if detail.contains(", without an IOMMU") {
        (Verdict::No, "it uses addresses of the machine (IOVA mode PA)")
    } else {
        (Verdict::NotApplicable, "a device in software reaches memory as the switch does")
    }
}

/// Returns the rest of the part of a text that begins so.
fn part<'t>(text: &'t str, begin: &str) -> Option<&'t str> {
    text.split(", ").find_map(|part| part.strip_prefix(begin))
}

/// Sends and receives frames, and looks where they lie and whether they are right. Returns the guest at the other end, as the other one
/// leaves, and whether frames came.
fn frames(rig: &mut Rig, report: &mut Report, near: Guest, far: Option<Guest>) -> Result<(Option<Guest>, bool)> {
    let patience = match rig.place().far {
        Far::Nobody => LISTEN,
        _ => rig.patience(),
    };
    let flow = Flow::begin(rig, near, far);
    let (mut flow, arrives) = flow.arrives(rig, patience)?;
    if arrives {
        let goal = rig.options().frames;
        if flow.is_checked() {
            eprintln!("{goal} frames each way, of which every byte is checked");
        }
        // The ring begins with buffers of the switch.
        exchange(rig, &mut flow, rig.turn().min(goal / 2))?;
        let before = rig.mapping()?;
        exchange(rig, &mut flow, goal)?;
        bytes(&flow, goal, &mut report.answers);
        rig.interrupt().sleep(COUNTED)?;
        places(&before, &rig.mapping()?, &mut report.answers);
    }
    Ok((flow.part().1, arrives))
}

/// Has frames flow until so many have come in each direction, or none come any more: then those that are missing are lost. Those of
/// others flow for a while only.
fn exchange(rig: &Rig, flow: &mut Flow, goal: u64) -> Result<()> {
    let began = Instant::now();
    let (mut before, mut last) = (flow.tally(), began);
    let is_over = |flow: &Flow| flow.wrong().is_some() || !flow.is_checked() && began.elapsed() > LISTEN;
    while !is_over(flow) && before.least < goal && last.elapsed() < rig.patience() {
        rig.interrupt().check()?;
        flow.step(goal);
        let now = flow.tally();
        if now != before {
            (before, last) = (now, Instant::now());
        }
    }
    Ok(())
}

/// Answers whether every byte was right.
fn bytes(flow: &Flow, goal: u64, answers: &mut Answers) {
    let tally = flow.tally();
    if !flow.is_checked() {
        let why = format!("{} frames of others came, whose bytes are not known: --peer or --looped", tally.others);
        return answers.set(Question::BytesRight, Verdict::Open, why);
    }
    let range = format!("of {} to {} bytes", SIZES.start(), SIZES.end());
    let others = if tally.others == 0 { String::new() } else { format!("; {} frames of others came", tally.others) };
    let seen = format!("{} of {} frames {range}, all directions together{others}", tally.received, tally.sent);
    match flow.wrong() {
        Some(wrong) => answers.set(Question::BytesRight, Verdict::No, format!("{wrong}; before that, {seen}")),
        None if tally.least < goal => {
            let lost = tally.sent - tally.received;
            answers.set(Question::BytesRight, Verdict::Partly, format!("{lost} are lost; what came is right: {seen}"));
        }
        None => answers.set(Question::BytesRight, Verdict::Yes, seen),
    }
}

/// Answers where frames lay, by the counters of the mapping.
fn places(before: &MappingStats, after: &MappingStats, answers: &mut Answers) {
    let why = after.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let none = |what: &str| format!("no frame was {what} under a mapping{why}");
    let since = |count: fn(&MappingStats) -> u64| count(after).saturating_sub(count(before));
    let [some, others] = [since(|mapping| mapping.in_place), since(|mapping| mapping.copied)];
    let seen = match some + others {
        0 => none("received"),
        all => format!("{some} of {all} frames, and {others} in the switch's own buffers"),
    };
    answers.set(Question::ReceivesInPlace, Verdict::nearly(some, some + others), seen);

    let [some, others] = [since(|mapping| mapping.sent_in_place), since(|mapping| mapping.sent_copied)];
    let all = some + others;
    let late =
        answers.get(Question::Opens).and_then(|opens| opens.seen.find(LATE).map(|at| opens.seen[at..].to_owned()));
    let (verdict, seen) = match late {
        _ if all == 0 => (Verdict::Open, none("sent")),
        Some(late) if some == 0 => (Verdict::No, format!("0 of {all} frames: {late}")),
        // Streams are made so.
        _ if others > 0 && some * 8 >= all * 7 => (
            Verdict::Yes,
            format!("{some} of {all} frames; one in eight was in several pieces, which not every driver sends"),
        ),
        _ => (Verdict::nearly(some, all), format!("{some} of {all} frames")),
    };
    answers.set(Question::SendsInPlace, verdict, seen);
}

/// Measures rates. A failure is an answer, too, but for a signal.
fn measure(rig: &Rig, report: &mut Report) -> Result<()> {
    match rates::run(rig) {
        Ok(rates) => {
            rates::answer(&rates, &mut report.answers);
            report.rates = Some(rates);
            Ok(())
        }
        Err(Error::Interrupted) => Err(Error::Interrupted),
        Err(error) => {
            report.answers.set(Question::Faster, Verdict::Open, error.to_string());
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_port_are_understood() {
        let detail = "device 0000:01:00.0, driver net_ixgbe, MTU 1500, behind an IOMMU";
        assert_eq!((guard(detail).0, part(detail, "driver ")), (Verdict::Yes, Some("net_ixgbe")));
        assert_eq!(guard("device a, driver b, MTU 1500, without an IOMMU, flow rules: 2").0, Verdict::No);
        assert_eq!(guard("device net_tap0, driver net_tap, MTU 1500").0, Verdict::NotApplicable);
    }

    #[test]
    fn places_are_counted_since_the_first_frame() {
        let before = MappingStats { in_place: 5, copied: 1, sent_copied: 2, ..MappingStats::default() };
        let after = MappingStats { in_place: 25, copied: 6, sent_copied: 12, ..before.clone() };
        let mut answers = Answers::default();
        answers.set(Question::Opens, Verdict::Yes, format!("device a, {LATE}, as the driver returns buffers late"));
        places(&before, &after, &mut answers);
        let seen = |question| answers.get(question).map(|answer| (answer.answer, answer.seen.as_str())).unwrap();
        assert_eq!(
            seen(Question::ReceivesInPlace),
            (Verdict::Partly, "20 of 25 frames, and 5 in the switch's own buffers")
        );
        assert_eq!(
            seen(Question::SendsInPlace),
            (
                Verdict::No,
                "0 of 10 frames: frames of guests are copied when they are sent, as the driver returns buffers late"
            )
        );
    }

    #[test]
    fn frames_in_pieces_may_be_copied() {
        let sent = |sent_in_place, sent_copied| {
            let mut answers = Answers::default();
            let after = MappingStats { sent_in_place, sent_copied, ..MappingStats::default() };
            places(&MappingStats::default(), &after, &mut answers);
            answers.get(Question::SendsInPlace).unwrap().answer
        };
        assert_eq!(
            [(16, 0), (14, 2), (13, 3), (0, 16)].map(|(some, others)| sent(some, others)),
            [Verdict::Yes, Verdict::Yes, Verdict::Partly, Verdict::No]
        );
    }

    #[test]
    fn frames_that_are_copied_are_not_said_to_be_in_place() {
        let reason = Some("the driver of net_pcap0 writes before frames".to_owned());
        let after = MappingStats { reason, ..MappingStats::default() };
        let mut answers = Answers::default();
        places(&MappingStats::default(), &after, &mut answers);
        let answer = answers.get(Question::ReceivesInPlace).unwrap();
        assert_eq!(answer.answer, Verdict::Open);
        assert!(answer.seen.ends_with("writes before frames"), "{}", answer.seen);
    }
}
