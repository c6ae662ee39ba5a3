//! Counters printed by testpmd.

use std::collections::BTreeMap;

use crate::{Error, Result};

/// A port's counters, as printed by `show port stats all`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets that the device dropped because its queue was full.
    pub rx_missed: u64,
    /// Packets received in error.
    pub rx_errors: u64,
    /// Packets dropped because no buffer was free.
    pub rx_nombuf: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
}

/// Parses the output of `show port stats all`: one entry per port, in order.
pub(super) fn parse(lines: &[String]) -> Result<Vec<PortStats>> {
    let mut ports: Vec<PortStats> = Vec::new();
    for line in lines {
        if line.contains("NIC statistics for port") {
            ports.push(PortStats::default());
            continue;
        }
        let Some(port) = ports.last_mut() else { continue };
        let mut words = line.split_ascii_whitespace();
        while let Some(word) = words.next() {
            let Some(field) = port.field(word) else { continue };
            let value = words.next().and_then(|value| value.parse().ok());
            *field = value.ok_or_else(|| Error::malformed("testpmd's statistics", format!("no number in {line:?}")))?;
        }
    }
    if ports.is_empty() {
        return Err(Error::malformed("testpmd's statistics", format!("no port in {lines:?}")));
    }
    Ok(ports)
}

/// Parses the output of `show port xstats all`: the named counters of each port, in order.
pub(super) fn parse_named(lines: &[String]) -> Vec<BTreeMap<String, u64>> {
    let mut ports: Vec<BTreeMap<String, u64>> = Vec::new();
    for line in lines {
        if line.contains("NIC extended statistics for port") {
            ports.push(BTreeMap::new());
        } else if let (Some(port), Some((name, value))) = (ports.last_mut(), line.split_once(": "))
            && let Ok(value) = value.trim().parse()
        {
            port.insert(name.to_owned(), value);
        }
    }
    ports
}

/// Parses the output of `show fwd stats all`: cycles per frame in rounds that moved frames.
pub(super) fn cycles(lines: &[String]) -> Option<f64> {
    let line = lines.iter().find_map(|line| line.split_once("CPU cycles/packet="))?.1;
    line.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.parse().ok()
}

/// Parses the output of `show port summary all`: whether there are ports, and all have a link.
pub(super) fn is_up(lines: &[String]) -> bool {
    let words = |line: &str| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut table = lines.iter().map(|line| words(line)).skip_while(|row| !row.starts_with(&words("Port MAC Address")));
    // The heading has a word more than a row before the status: its address is one.
    let Some(column) = table.next().and_then(|heading| heading.iter().position(|word| word == "Status")) else {
        return false;
    };
    let mut ports = table.take_while(|row| row.first().is_some_and(|port| port.parse::<u16>().is_ok())).peekable();
    ports.peek().is_some() && ports.all(|row| row.get(column - 1).is_some_and(|status| status == "up"))
}

/// Parses the line in which DPDK tells its version.
pub(super) fn version(line: &str) -> Option<String> {
    Some(line.split_once("RTE Version:")?.1.trim().trim_matches('\'').to_owned())
}

impl PortStats {
    fn field(&mut self, label: &str) -> Option<&mut u64> {
        match label {
            "RX-packets:" => Some(&mut self.rx_packets),
            "RX-bytes:" => Some(&mut self.rx_bytes),
            "RX-missed:" => Some(&mut self.rx_missed),
            "RX-errors:" => Some(&mut self.rx_errors),
            "RX-nombuf:" => Some(&mut self.rx_nombuf),
            "TX-packets:" => Some(&mut self.tx_packets),
            "TX-bytes:" => Some(&mut self.tx_bytes),
            "TX-errors:" => Some(&mut self.tx_errors),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_finds_its_field() {
        let text = "testpmd> show port stats all

  ######################## NIC statistics for port 0  ########################
  RX-packets: 11         RX-missed: 12         RX-bytes:  13
  RX-errors: 14
  RX-nombuf:  15        \x20
  TX-packets: 16         TX-errors: 17         TX-bytes:  18

  Throughput (since last show)
  Rx-pps:            5          Rx-bps:            6
  ############################################################################

  ######################## NIC statistics for port 1  ########################
  RX-packets: 21         RX-missed: 0          RX-bytes:  0";
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let first = PortStats {
            rx_packets: 11,
            rx_missed: 12,
            rx_bytes: 13,
            rx_errors: 14,
            rx_nombuf: 15,
            tx_packets: 16,
            tx_errors: 17,
            tx_bytes: 18,
        };
        assert_eq!(parse(&lines).unwrap(), [first, PortStats { rx_packets: 21, ..PortStats::default() }]);
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(parse(&["Command not found".to_owned()]).is_err());
        assert_eq!((cycles(&["Command not found".to_owned()]), version("Command not found")), (None, None));
    }

    #[test]
    fn a_port_without_a_guest_is_down() {
        let table = |statuses: &[&str]| -> Vec<String> {
            let row = |status| format!("0    56:48:4F:53:54:00 net_vhost0   net_vhost      {status}     10 Gbps");
            let text =
                ["Number of available ports: 2", "Port MAC Address       Name         Driver         Status   Link"];
            text.iter().map(|line| line.to_string()).chain(statuses.iter().map(row)).collect()
        };
        assert!(is_up(&table(&["up", "up"])));
        assert!(!is_up(&table(&["up", "down"])) && !is_up(&table(&[])) && !is_up(&[]));
    }

    #[test]
    fn cycles_and_version_are_found() {
        let line = "  CPU cycles/packet=52.70 (busy cycles=4576043 / total io packets=86832) at 2000 MHz Clock";
        assert_eq!(cycles(&[line.to_owned()]), Some(52.7));
        assert_eq!(version("EAL: RTE Version: 'DPDK 22.11.11'").as_deref(), Some("DPDK 22.11.11"));
    }
    #[test]
    fn named_counters_are_of_their_port() {
        let lines = "###### NIC extended statistics for port 1\nrx_good_packets: 7\ntx_split: 0\n\
                     ###### NIC extended statistics for port 3\nrx_good_packets: 9\ntestpmd> ";
        let lines: Vec<String> = lines.lines().map(str::to_owned).collect();
        let ports = parse_named(&lines);
        assert_eq!((ports.len(), ports[0]["rx_good_packets"], ports[0]["tx_split"]), (2, 7, 0));
        assert_eq!(ports[1].len(), 1);
    }
}
