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
    let WayWhy { from, to, frames, now, in_place, copied, reasons } = way;
    let [in_place, copied] = match frames {
        Frames::Copied => ["-".to_owned(), "-".to_owned()],
        _ => [in_place, copied].map(u64::to_string),
    };
    let reasons: Vec<_> = reasons.iter().map(|(reason, frames)| format!("{frames} {reason}")).collect();
    let present = now.as_ref().map_or_else(|| reasons.join(", "), |why| format!("copied: {why}"));
    [from.clone(), to.clone(), frames.name().to_owned(), in_place, copied, present]
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

#[cfg(test)]
mod tests {
    use super::*;

    fn way(from: &str, to: &str, frames: Frames) -> WayWhy {
        WayWhy { from: from.into(), to: to.into(), frames, ..WayWhy::default() }
    }

    #[test]
    fn ways_have_their_counts_and_peers_their_reasons() {
        let mapped = PeerWhy {
            peer: "fw".into(),
            chosen_by: Some("auto".into()),
            why: "it is safe".into(),
            remedy: None,
            ways: vec![
                WayWhy {
                    in_place: 12,
                    copied: 3,
                    now: Some("the port is down".into()),
                    ..way("wan.0", "fw.0", Frames::ReceivedInPlace)
                },
                WayWhy {
                    in_place: 7,
                    copied: 3,
                    reasons: [("changed".into(), 1), ("short".into(), 2)].into(),
                    ..way("fw", "wan", Frames::Exchanged)
                },
            ],
        };
        let copied = |peer: &str| PeerWhy {
            peer: peer.into(),
            chosen_by: None,
            why: "it is a guest".into(),
            remedy: Some("use `group`".into()),
            ways: vec![way("wan", peer, Frames::Copied)],
        };
        let why = PortWhy {
            port: "wan".into(),
            driver: "tap".into(),
            forwarding: "bridge br0".into(),
            acceleration: "auto".into(),
            group: Some("g".into()),
            peers: vec![mapped, copied("b"), copied("c")],
        };
        let shown = show(&why);
        let lines: Vec<String> =
            shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "wan: driver tap, bridge br0, acceleration auto, group g.",
                "FROM TO FRAMES NOT COPIED COPIED AT PRESENT",
                "wan.0 fw.0 received in place 12 3 copied: the port is down",
                "fw wan exchanged 7 3 1 changed, 2 short",
                "wan b copied - -",
                "wan c copied - -",
                "",
                "fw: chosen by the switch, as it is safe",
                "b, c: copied, as it is a guest",
                "to change it: use `group`",
            ]
        );
        let alone = show(&PortWhy { peers: vec![], ..why });
        assert!(alone.ends_with("join it to others by a [[patch]] or a [[bridge]]."), "{alone}");
    }
}
