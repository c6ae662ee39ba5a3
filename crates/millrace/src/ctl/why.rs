//! The explanation of a port, as text.

use super::tables::{table, text};
use engine::why::{Frames, PeerWhy, PortWhy, WayWhy};

pub(super) fn show(why: &PortWhy) -> String {
    let PortWhy { port, driver, forwarding, acceleration, group, peers } = why;
    let group = group.iter().map(|group| format!(", group {group}")).collect::<String>();
    let head = format!("{port}: driver {driver}, {forwarding}, acceleration {acceleration}{group}.");
    if peers.is_empty() {
        return format!("{head}\nIts frames go nowhere: join it to others by a [[patch]] or a [[bridge]].");
    }
    let mut out = table(&["FROM", "TO", "FRAMES", "NOT COPIED", "COPIED", "AT PRESENT"], 3..5);
    peers.iter().flat_map(|peer| &peer.ways).for_each(|way| {
        out.add_row(row(way));
    });
    let reasons: Vec<_> = alike(peers).iter().map(|(names, peer)| reason(names, peer)).collect();
    format!("{head}\n{}\n\n{}", text(&out), reasons.join("\n"))
}

fn row(way: &WayWhy) -> [String; 6] {
    let WayWhy { from, to, frames, now, in_place, copied } = way;
    let counts = match frames {
        Frames::Copied => ["-".to_owned(), "-".to_owned()],
        _ => [in_place.to_string(), copied.values().sum::<u64>().to_string()],
    };
    let reasons =
        copied.iter().filter(|(reason, _)| !reason.is_empty()).map(|(reason, frames)| format!("{frames} {reason}"));
    let reasons: Vec<_> = reasons.collect();
    let present = match now {
        Some(why) => format!("copied: {why}"),
        None => reasons.join(", "),
    };
    let [done, copied] = counts;
    [from.clone(), to.clone(), frames.name().to_owned(), done, copied, present]
}

/// Puts peers with the same reason together: a bridge may have a thousand.
fn alike(peers: &[PeerWhy]) -> Vec<(Vec<&str>, &PeerWhy)> {
    let mut alike: Vec<(Vec<&str>, &PeerWhy)> = Vec::new();
    for peer in peers {
        let is_alike = |other: &PeerWhy| {
            (&other.why, &other.remedy, &other.chosen_by) == (&peer.why, &peer.remedy, &peer.chosen_by)
        };
        match alike.iter_mut().find(|(_, other)| is_alike(other)) {
            Some((names, _)) => names.push(&peer.peer),
            None => alike.push((vec![&peer.peer], peer)),
        }
    }
    alike
}

fn reason(names: &[&str], peer: &PeerWhy) -> String {
    let choice = match peer.chosen_by.as_deref() {
        Some("auto") => "chosen by the switch",
        Some(_) => "chosen by the file",
        None => "copied",
    };
    let remedy = peer.remedy.iter().map(|remedy| format!("\n    to change it: {remedy}")).collect::<String>();
    format!("{}: {choice}, as {}{remedy}", names.join(", "), peer.why)
}
