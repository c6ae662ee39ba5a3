//! Text tables of `ctl flows`.

use super::tables::{table, text};
use api::flow::{Flow, Flows};
use engine::stats::{DatapathPort, DatapathStats};

pub(super) fn show(flows: &Flows) -> String {
    let bridge = match &flows.datapath {
        None => "No bridge forwards by flows.".to_owned(),
        Some(datapath) => summary(datapath),
    };
    if flows.flows.is_empty() {
        return format!("{bridge}\nControllers have set no flows.");
    }
    let header = ["TABLE", "PRIORITY", "MATCH", "ACTIONS", "PACKETS", "BYTES", "AGE", "TIMEOUTS"];
    let mut out = table(&header, 4..7);
    for flow in &flows.flows {
        out.add_row([
            flow.table.to_string(),
            flow.priority.to_string(),
            flow.matches.clone(),
            flow.actions.clone(),
            flow.packets.to_string(),
            flow.bytes.to_string(),
            format!("{:.0}s", flow.age_seconds),
            timeouts(flow),
        ]);
    }
    format!("{bridge}\n\n{}", text(&out))
}

fn summary(datapath: &DatapathStats) -> String {
    let port = |port: &DatapathPort| match port.config.join(", ") {
        config if config.is_empty() => format!("{} is {}", port.number, port.name),
        config => format!("{} is {} ({config})", port.number, port.name),
    };
    let ports: Vec<_> = datapath.ports.iter().map(port).collect();
    let mut lines = vec![
        format!("Bridge {}: {}.", datapath.bridge, ports.join(", ")),
        format!(
            "{} frames looked up, {} with a flow, {} searched for in the table.",
            datapath.lookups, datapath.matched, datapath.searched
        ),
        format!("{} packets for controllers, {} lost.", datapath.packet_ins, datapath.packet_ins_lost),
    ];
    for (reason, packets) in &datapath.packet_out_drops {
        lines.push(format!("{packets} packets of controllers dropped: {reason}."));
    }
    lines.join("\n")
}

fn timeouts(flow: &Flow) -> String {
    match (flow.idle_timeout, flow.hard_timeout) {
        (0, 0) => "-".to_owned(),
        (idle, 0) => format!("idle {idle}s"),
        (0, hard) => format!("hard {hard}s"),
        (idle, hard) => format!("idle {idle}s, hard {hard}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_flows_are_shown() {
        let port = DatapathPort { name: "wan".into(), number: 3, config: vec!["NO_FWD".into()] };
        let drops = [("no-flow".to_owned(), 2)].into();
        let datapath =
            DatapathStats { bridge: "br0".into(), ports: vec![port], packet_out_drops: drops, ..Default::default() };
        let flow = Flow {
            priority: 7,
            matches: "in_port=3".into(),
            actions: "drop".into(),
            packets: 12,
            idle_timeout: 5,
            ..Flow::default()
        };
        let shown = show(&Flows { datapath: Some(datapath), flows: vec![flow] });
        assert!(
            shown.contains("Bridge br0: 3 is wan (NO_FWD).")
                && shown.contains("2 packets of controllers dropped: no-flow")
        );
        let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows.last().unwrap()[..], ["0", "7", "in_port=3", "drop", "12", "0", "0s", "idle", "5s"], "{shown}");
        assert!(show(&Flows::default()).contains("no flows"));
    }
}
