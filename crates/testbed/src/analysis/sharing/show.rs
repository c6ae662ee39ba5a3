//! The results as tables.

use super::found::{BOUND, Found, Measured, THREADS};
use super::model::{Cost, Kind, Link, Model};
use super::plan::Point;
use super::rows::{OFFERED, QUEUED};
use super::subject::Part;
use crate::statistics::Spread;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

/// Formats all tables.
pub fn text(found: &Found) -> String {
    let mut parts = vec![cycles(found), speed(found)];
    if !found.switch.is_empty() {
        parts.push(switch(found));
    }
    if let Some(costs) = found.model_costs() {
        let two = |name: &str, cost: Cost| format!("{name} {:.0} a batch and {:.1} a packet", cost.batch, cost.packet);
        parts.push(format!(
            "The model has, in cycles: {}; {}; {}; {}; {:.0} more for a batch if another\nthread had the lock before, and {:.0} more if it finds the lock taken.\n{}",
            two("alone", costs.alone),
            two("parent", costs.parent),
            two("worker", costs.worker),
            two("with the lock", costs.locked),
            costs.moved,
            costs.hand_over,
            "Alone is the I/O of a queue for each thread (rss). Of 1 to 16 threads that process, it predicts:"
        ));
        for (asked, work) in found.works() {
            let Some(model) = found.model(work) else { continue };
            parts.push(format!("{asked} cycles of work ({work:.0} measured)\n{}", rates(found, &model)));
            parts.push(links(found, &model));
            parts.push(queues(&model));
        }
    }
    parts.push(foot(found));
    parts.extend(found.note().map(|note| format!("Note: {note}.")));
    parts.join("\n\n") + "\n"
}

fn cycles(found: &Found) -> String {
    let head = ["SHARING", "THREADS", "FLOWS", "LOAD", "MEDIAN", "OF ONE", "10 %", "90 %", "99 %", "MEAN", "OF ONE"];
    let mut table = table(head.into_iter().chain(["RECEIVE", "THREADS", "SEND", "BATCH", "PREEMPTED"]), 4..16);
    for measured in found.costs() {
        let Point { sharing, threads, flows, load, .. } = measured.point;
        let cycles = measured.cycles();
        let mean = |wanted: Part| {
            measured.parts().find(|(part, _)| *part == wanted).map_or("-".to_owned(), |(_, mean)| format!("{mean:.1}"))
        };
        let mut cells = vec![sharing.to_string(), with_parents(measured.point), flows.to_string(), load.to_string()];
        let growth = found.growth(measured).filter(|_| threads > 1);
        let growth = |which: usize| growth.map_or("-".to_owned(), |growth| format!("{:.2}", growth[which]));
        cells.extend([format!("{:.1}", measured.median()), growth(0)]);
        cells.extend([0.1, 0.9, 0.99].map(|share| format!("{:.0}", cycles.quantile(share))));
        cells.extend([format!("{:.1}", measured.mean()), growth(1)]);
        cells.extend([Part::Receive, Part::Threads, Part::Send].map(mean));
        cells.extend([format!("{:.1}", measured.batch()), format!("{:.2} %", 100.0 * measured.excluded())]);
        table.add_row(cells);
    }
    format!("Cycles of sharing and I/O for each packet, without work\n{}", table.trim_fmt())
}

fn speed(found: &Found) -> String {
    let head = ["WORK", "SHARING", "THREADS", "FLOWS", "Mpps", "OF ONE ALONE", "MODEL Mpps", "DEVIATION"];
    let mut table = table(head, 4..8);
    let mut points: Vec<_> = found.speeds().collect();
    points.sort_by_key(|Measured { point, .. }| (point.work, point.sharing, point.flows, point.threads));
    for measured in points {
        let Point { sharing, flows, work, .. } = measured.point;
        let Some(pace) = measured.pace() else { continue };
        let predicted = found.predicted(measured);
        table.add_row([
            format!("{work}"),
            sharing.to_string(),
            with_parents(measured.point),
            flows.to_string(),
            format!("{:.2}", found.mpps(pace.median)),
            found.speed_up(measured).map_or("-".to_owned(), ratio),
            predicted.map_or("-".to_owned(), |pace| format!("{:.2}", found.mpps(pace))),
            predicted.map_or("-".to_owned(), |predicted| format!("{:+.1} %", 100.0 * (predicted / pace.median - 1.0))),
        ]);
    }
    format!("Two processors, a full queue\n{}", table.trim_fmt())
}

fn switch(found: &Found) -> String {
    const STEPS: [&str; 5] = ["publish", "receive", "forward", "recycle", "release"];
    let steps = STEPS.map(|step| step.to_uppercase());
    let head = ["SHARING", "THREADS", "CYCLES", "OF ONE"].map(str::to_owned).into_iter().chain(steps);
    let mut table = table(head.chain(["Mpps".to_owned()]), 2..10);
    for workers in &found.switch {
        let growth = found.growth_of_switch(workers).filter(|_| workers.point.threads > 1);
        let of = workers.steps();
        let mut cells = vec![workers.point.sharing.to_string(), with_parents(workers.point)];
        cells.extend([
            format!("{:.1}", workers.cycles()),
            growth.map_or("-".to_owned(), |growth| format!("{growth:.2}")),
        ]);
        cells.extend(STEPS.map(|step| of.get(step).map_or("-".to_owned(), |cycles| format!("{cycles:.1}"))));
        cells.push(workers.pace().map_or("-".to_owned(), |pace| format!("{:.1}", found.mpps(pace.median))));
        table.add_row(cells);
    }
    format!(
        "Workers of the switch, from a generator to a sink: mean cycles for each frame, by the switch's counters\n{}",
        table.trim_fmt()
    )
}

/// Formats the number of threads, with the parent if there is one.
fn with_parents(point: Point) -> String {
    let parents = if point.sharing.parents() > 0 { "parent + " } else { "" };
    format!("{parents}{}", point.threads)
}

fn ratio(Spread { median, min, max }: Spread) -> String {
    format!("{median:.2} ({min:.2}..{max:.2})")
}

fn rates(found: &Found, model: &Model) -> String {
    const SHOWN: [u32; 7] = [1, 2, 4, 6, 8, 12, 16];
    let head = ["Mpps".to_owned()].into_iter().chain(SHOWN.map(|threads| threads.to_string()));
    let mut table = table(head.chain(["FULL WITH".to_owned()]), 1..9);
    for kind in Kind::ALL {
        let rates = SHOWN.map(|threads| format!("{:.1}", found.mpps(model.capacity(kind, threads))));
        let full = model.saturation(kind).map_or("-".to_owned(), |threads| threads.to_string());
        table.add_row([kind.name().to_owned()].into_iter().chain(rates).chain([full]));
    }
    table.trim_fmt()
}

fn links(found: &Found, model: &Model) -> String {
    let kinds = Kind::ALL.map(Kind::name);
    let mut table = table(["THREADS THAT FILL", "Mpps"].into_iter().chain(kinds), 1..7);
    for link in Link::all() {
        let fills = Kind::ALL.map(|kind| found.fills(model, kind, link).map_or("-".to_owned(), |n| n.to_string()));
        let Link { gigabits, frames } = link;
        let named = [format!("{gigabits} GbE, {frames}"), format!("{:.2}", link.packets() / 1e6)];
        table.add_row(named.into_iter().chain(fills));
    }
    table.trim_fmt()
}

fn queues(model: &Model) -> String {
    let head = OFFERED.map(|offered| format!("{:.0} % OFFERED", 100.0 * offered));
    let mut table = table([format!("{QUEUED} THREADS")].into_iter().chain(head), 1..4);
    for kind in Kind::ALL {
        let cells = OFFERED.map(|offered| {
            let queue = model.queue(kind, QUEUED, offered * model.capacity(kind, QUEUED));
            queue.waiting.map_or(format!("{:.0} % lost", 100.0 * queue.lost), |waiting| format!("{waiting:.2} wait"))
        });
        table.add_row([kind.name().to_owned()].into_iter().chain(cells));
    }
    table.trim_fmt()
}

fn foot(found: &Found) -> String {
    let latencies = found.latencies.iter().map(|latency| latency.nanoseconds);
    let Some(Spread { min, max, .. }) = Spread::of(latencies) else { return found.rig.to_string() };
    format!(
        "{}, {min:.0} to {max:.0} ns one way.\n\
         The parent's cycles and a thread's are added as if independent. MEDIAN, MEAN: of a measurement, median over all of them;\n\
         beside it the means of its parts. 10 % to 99 %: of all packets. OF ONE: relative to one thread. A thread counts from the\n\
         beginning of the claim that got it a batch, waits for a lock included, and from the end of its work until it has given the\n\
         batch back. Two processors: more threads take turns at the second one, a batch each.\n\
         PREEMPTED: share of packets that took more than {BOUND} cycles, which do not count; the greatest of the parts.\n\
         Switch: medians over all measurements; the parent's steps are publish and release. Behind a lock, vain tries do not count.\n\
         Speed: medians over rounds (least..greatest), while all threads work. The model's deviation is from these.\n\
         FULL WITH: threads that the parent or the lock limits. Predicted for up to {} threads; `-`: not with that many.",
        found.rig,
        THREADS.end()
    )
}

/// Returns a table with some columns of numbers.
fn table<H: Into<comfy_table::Cell>>(head: impl IntoIterator<Item = H>, numbers: std::ops::Range<usize>) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(head.into_iter().map(Into::into).collect::<Vec<comfy_table::Cell>>());
    for index in numbers {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::found::tests::found;
    use super::super::plan::Flows;
    use super::super::{chart, rows};
    use super::*;

    #[test]
    fn all_tables_are_there() {
        let text = text(&found());
        for part in [
            "static-role  parent + 1",
            "Cycles of sharing",
            "OF ONE ALONE",
            "500 cycles of work (500 measured)",
            "0.19 %",
            "120 % OFFERED",
            "17 % lost",
            "100 GbE, IMIX",
            "PUBLISH",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn rows_are_those_of_the_tables() {
        let record = rows::record(&found());
        let text: serde_json::Value = serde_json::from_str(&record.text()).unwrap();
        let count = |name: &str| text["figures"].as_array().unwrap().iter().filter(|row| row["figure"] == name).count();
        // Two loads, one flow and many: alone, and three sharings with one and two threads. Two amounts of work: alone, a queue for
        // each of one and two with one flow and many, locked with one and two, and a parent.
        assert_eq!((count("cycles"), count("speed"), count("costs")), (4 * 7, 2 * 8, 1));
        assert_eq!(count("switch"), 7);
        assert_eq!((count("model"), count("link"), count("queue")), (2 * 5, 2 * 9, 2 * 5 * 3));
        let cycles = &text["figures"][0];
        assert_eq!((&cycles["sharing"], &cycles["median"]), (&"alone".into(), &119.0.into()), "{cycles}");
    }

    #[test]
    fn charts_have_curves_and_measured_points() {
        for (flows, named) in [(Flows::One, "low load, one flow"), (Flows::Many, "low load, many flows")] {
            let svg = chart::cycles(&found(), flows).unwrap();
            assert!(svg.contains("static-role, 2") && svg.contains("rss, 2") && svg.contains(named), "{svg}");
        }
        let svg = chart::model(&found()).unwrap();
        // A point for each measurement of speed.
        assert_eq!(svg.matches("<circle").count(), 2 * 8, "{svg}");
        assert!(svg.contains("rss, many flows") && !svg.contains("NaN"));
        let mut without = found();
        without.points.clear();
        assert!(chart::model(&without).is_none() && chart::cycles(&without, Flows::One).is_none());
        assert!(!super::text(&without).contains("The model"));
    }
}
