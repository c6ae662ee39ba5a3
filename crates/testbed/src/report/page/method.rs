//! The method of the runs, their failures, and the meaning of the terms.

use crate::report::contents::Report;
use crate::report::numbers::counted;
use crate::report::read::Set;
use crate::report::run::Run;
use crate::report::verdict::MARGIN;
use crate::statistics::Estimate;
use maud::{Markup, html};

/// Terms that a reader may not know.
const TERMS: [(&str, &str); 13] = [
    (
        "tuple (D, L, S, V, P, R, B)",
        "names a test: what is measured, on which hosts, pairs, switch, bytes of a frame, rate of each sender, packets of a burst",
    ),
    ("pair", "a sender and its receiver, or a client and its server; NvsN means N pairs"),
    ("frame", "an Ethernet frame without its checksum; its size counts all headers"),
    ("burst", "packets that an application hands over at once"),
    ("Mpps, kpps", "millions and thousands of packets per second"),
    ("NDR", "no-drop rate: the greatest rate at which the search found no lost packet"),
    ("PDR", "partial-drop rate: the same with at most 0.5 % of packets lost"),
    (
        "round trip",
        "time from sending a packet until it is back from the server; of several pairs, the greatest value of any",
    ),
    (
        "near, far",
        "whether a cache line takes less than 100 ns from one processor to the other, before and after the run",
    ),
    ("virtio-user, vhost-user", "a network port in shared memory: the application's end, and the switch's"),
    (
        "udp, udp-mmsg, raw, raw-mmsg",
        "sockets of the kernel, with its UDP or without, with a call for each packet or for each burst",
    ),
    ("tpacket, af-xdp, netmap", "interfaces of the kernel that share memory with the application"),
    ("IMIX", "a mix of frames: seven of 64 bytes, four of 594, one of 1518"),
];

/// Writes the sections at the end.
pub fn sections(report: &Report) -> Markup {
    html! { (failed(report)) (method()) (commands(report)) (terms()) }
}

fn failed(report: &Report) -> Markup {
    let sets = &report.study.sets;
    let failures: Vec<_> = sets.iter().flat_map(Set::failures).collect();
    let wrong: Vec<_> =
        sets.iter().flat_map(|set| &set.runs).filter(|run| run.figures.wrong != Default::default()).collect();
    html! {
        section #failed {
            h2 { "Failed runs" }
            @if failures.is_empty() { p { "Every run has results." } } @else {
                div.scroll tabindex="0" role="region" aria-label="Failed runs" { table {
                    thead { tr { @for head in ["Test", "Rounds", "Reason"] { th scope="col" { (head) } } } }
                    tbody { @for (point, rounds, reason) in &failures { tr {
                        th scope="row" { (point) } td { (rounds) } td.text { (reason) }
                    } } }
                } }
            }
            @if wrong.is_empty() { p { "No packet was changed, received twice or out of order." } } @else {
                p { (counted(wrong.len(), "run")) " had packets that were not received as they were sent:" }
                ul { @for run in wrong { li { (run.point) ", round " (run.round) ": " (run.figures.wrong) } } }
            }
        }
    }
}

fn method() -> Markup {
    let confidence = |rounds| format!("{:.0} %", 100.0 * Estimate::confidence(rounds));
    html! {
        section #method {
            h2 { "Method" }
            p {
                "The tests are those of G. Ara, L. Lai, T. Cucinotta, L. Abeni and C. Vitucci, "
                cite { "A Framework for Comparative Evaluation of High-Performance Virtualized Networking Mechanisms" }
                ". Applications send, receive and check real packets through the switch; all switches carry the same ones."
            }
            dl {
                dt { "Rounds" }
                dd {
                    "In each round every switch has its turn at every test, and the next round begins again. So a machine that becomes \
                     slower does so for all. A comparison divides the results of one round, and shows the median of these ratios."
                }
                dt { "Warm-up and cut-off" }
                dd { "Senders begin before the measured seconds and end after them. Only packets that were sent within them count." }
                dt { "Placement" }
                dd {
                    "Separate: each end of each pair is a process on a processor of its own. Crowded: each is a process, and several \
                     share a processor, so that an end also waits for its time slice. Joined: both ends of all pairs are in one \
                     thread, and the switch has the other processor; then the load is as fast as one processor. Each figure names its \
                     placement, and only equal ones are compared."
                }
                dt { "Distance" }
                dd {
                    "Virtual processors may share a cache or not, and move. Each run says which it was before and after. Only runs of \
                     equal distance are compared, and runs whose processors moved are left out."
                }
                dt { "Interval" }
                dd {
                    "About each median stands an interval in which the true one lies with 95 % confidence, without any assumption on the \
                     distribution of rounds. Fewer than six rounds can't give that: then it is the range of all rounds, with a confidence \
                     of " (confidence(3)) " for three rounds and " (confidence(5)) " for five."
                }
                dt { "Ahead and behind" }
                dd {
                    "Millrace is ahead if the whole interval of the ratio says so, and behind as soon as the median does. Differences below "
                    (format!("{:.0} %", 100.0 * MARGIN)) " count as none."
                }
                dt { "Limit of the load" }
                dd {
                    "An application that is never idle may be slower than the switch. Then all that is faster looks alike, and comparisons say so."
                }
                dt { "Techniques" }
                dd {
                    "A switch is compared with Millrace at the same technique. If Millrace was not measured with it, the technique that \
                     Millrace is best with stands against it."
                }
            }
        }
    }
}

fn commands(report: &Report) -> Markup {
    html! {
        section #commands {
            h2 { "How this was run" }
            @for set in &report.study.sets {
                @if report.study.sets.len() > 1 { h3 { (set.name) } }
                @if let Some(command) = &set.origin.command { pre { code { (command) } } }
                @if let Some(scenario) = &set.scenario {
                    details { summary { "The scenario" } pre { code { (scenario) } } }
                }
                @for run in switches(set) {
                    details {
                        summary { b { (run.point.switch) } " " (run.switch.version) ", " (counted(run.point.pairs.into(), "pair")) ", " (run.point.technique) }
                        pre { code { @for line in &run.switch.commands { (line) "\n" } } }
                    }
                }
            }
        }
    }
}

/// Returns a run of each switch in each of its versions and setups.
fn switches(set: &Set) -> Vec<&Run> {
    let mut runs: Vec<&Run> = Vec::new();
    for run in &set.runs {
        let setup = |run: &Run| {
            (
                run.point.switch.clone(),
                run.switch.version.clone(),
                run.point.location,
                run.point.pairs,
                run.point.technique,
            )
        };
        if !runs.iter().any(|other| setup(other) == setup(run)) {
            runs.push(run);
        }
    }
    runs.sort_by(|a, b| {
        (&a.point.switch, a.point.technique, a.point.pairs).cmp(&(&b.point.switch, b.point.technique, b.point.pairs))
    });
    runs
}

fn terms() -> Markup {
    html! {
        section #terms {
            h2 { "Terms" }
            dl { @for (term, meaning) in TERMS { dt { (term) } dd { (meaning) "." } } }
        }
    }
}
