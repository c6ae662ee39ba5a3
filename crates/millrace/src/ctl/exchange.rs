//! Exchanges, as text.

use super::tables::{table, text};
use engine::stats::{ExchangePair, ExchangeStats, GroupBuffers};

pub(super) fn show(exchanges: &[ExchangeStats]) -> String {
    if exchanges.is_empty() {
        return "No functions exchange buffers or pages; docs/exchange.md says how they would.".to_owned();
    }
    exchanges.iter().map(one).collect::<Vec<_>>().join("\n\n")
}

fn one(exchange: &ExchangeStats) -> String {
    let ExchangeStats { ports, mode, chosen_by, threshold, measured, buffers, functions, reason, pairs } = exchange;
    let from = match (threshold, measured) {
        (None, _) => "from a length on that will be measured".to_owned(),
        (Some(threshold), _) if *threshold > u16::MAX.into() => {
            "none, as copies take less time here (measured)".to_owned()
        }
        (Some(threshold), measured) => {
            format!("from {threshold} bytes on{}", if *measured { " (measured)" } else { "" })
        }
    };
    let buffers = buffers.iter().map(|GroupBuffers { buffer_size, buffers, free }| {
        format!("; {free} of {buffers} buffers for frames of {buffer_size} bytes are free")
    });
    let head = format!(
        "{}: mode {mode} (chosen by: {chosen_by}), frames {from}; functions: {functions}{}.",
        ports.join(", "),
        buffers.collect::<String>()
    );
    let reason = reason.iter().map(|reason| format!("\nNothing is exchanged; {reason}."));
    let mut out = table(&["FROM", "TO", "EXCHANGED", "COPIED", "WHY"], 2..4);
    for ExchangePair { from, to, exchanged, copied } in pairs {
        let why: Vec<_> = copied.iter().map(|(reason, frames)| format!("{frames} {reason}")).collect();
        out.add_row([
            from.as_deref().unwrap_or("(others)"),
            to,
            &exchanged.to_string(),
            &copied.values().sum::<u64>().to_string(),
            &why.join(", "),
        ]);
    }
    let pairs = if pairs.is_empty() { "No frames yet.".to_owned() } else { text(&out) };
    format!("{head}{}\n{pairs}", reason.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_their_counts_and_reasons() {
        let pair = |from: Option<&str>, exchanged, copied: &[(&str, u64)]| ExchangePair {
            from: from.map(str::to_owned),
            to: "nat".into(),
            exchanged,
            copied: copied.iter().map(|(reason, frames)| ((*reason).to_owned(), *frames)).collect(),
        };
        let stats = ExchangeStats {
            ports: vec!["fw".into(), "nat".into()],
            mode: "group".into(),
            chosen_by: "file".into(),
            threshold: Some(0),
            measured: false,
            buffers: Some(GroupBuffers { buffer_size: 2048, buffers: 4096, free: 1536 }),
            functions: 2,
            reason: None,
            pairs: vec![pair(Some("fw"), 1000, &[("changed", 3), ("short", 2)]), pair(None, 0, &[("outside", 7)])],
        };
        let shown = show(std::slice::from_ref(&stats));
        assert_eq!(
            shown,
            "fw, nat: mode group (chosen by: file), frames from 0 bytes on; functions: 2; 1536 of 4096 buffers for frames of 2048 bytes are \
             free.\n FROM      TO   EXCHANGED  COPIED  WHY\n fw        nat       1000       5  3 changed, 2 short\n \
             (others)  nat          0       7  7 outside"
        );
        let reason = Some("no function can join: there is no memory".into());
        let none = ExchangeStats { pairs: vec![], reason, ..stats.clone() };
        let shown = show(&[none]);
        assert!(
            shown.ends_with(
                "are free.\nNothing is exchanged; no function can join: there is no memory.\nNo frames yet."
            )
        );
        let pages = ExchangeStats { mode: "zcopy".into(), buffers: None, pairs: vec![], ..stats.clone() };
        assert_eq!(
            show(&[pages]),
            "fw, nat: mode zcopy (chosen by: file), frames from 0 bytes on; functions: 2.\nNo frames yet."
        );
        let with = |threshold, measured| show(&[ExchangeStats { threshold, measured, ..stats.clone() }]);
        assert!(with(None, true).contains("frames from a length on that will be measured; functions: 2"));
        assert!(with(Some(128), true).contains("frames from 128 bytes on (measured); functions: 2"));
        let none = [65_536, u32::MAX].map(|threshold| with(Some(threshold), true));
        assert!(none.iter().all(|shown| shown.contains("frames none, as copies take less time here (measured)")));
        assert!(show(&[]).starts_with("No functions exchange buffers or pages"));
    }
}
