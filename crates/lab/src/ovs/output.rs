//! Reads the output of the programs of Open vSwitch.

/// Text before the versions in its log.
pub(super) const OWN_VERSION: &str = "(Open vSwitch) ";
pub(super) const DPDK_VERSION: &str = "Using DPDK ";

/// Returns its version, and DPDK's if it has that, from its log.
pub(super) fn version(log: &[String]) -> Option<String> {
    let after = |words: &str| log.iter().find_map(|line| Some(line.split_once(words)?.1.trim().to_owned()));
    let dpdk = after(DPDK_VERSION).map_or(String::new(), |version| format!(", DPDK {version}"));
    Some(format!("Open vSwitch {}{dpdk}", after(OWN_VERSION)?))
}

/// Returns the figure of the forwarding thread; the main thread, printed after it, has no such line.
pub(super) fn cycles(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("avg processing cycles per packet:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Reports whether `ports` ports have links, in the output of `ovs-ofctl show`. The bridge's own port is not counted.
pub(super) fn have_links(text: &str, ports: usize) -> bool {
    let mut linked = 0;
    let mut is_port = false;
    for line in text.lines() {
        // As in ` 1(a.sock): addr:00:00:00:00:00:00`.
        if let Some((number, _)) = line.trim_start().split_once('(') {
            is_port = number.parse::<u16>().is_ok();
        }
        if let Some((_, state)) = line.split_once("state:") {
            linked += usize::from(is_port && !state.contains("LINK_DOWN"));
        }
    }
    linked == ports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_versions_are_found() {
        let text = "pmd thread numa_id 0 core_id 0:
  packets received: 3249696
  avg cycles per packet: 248.14 (806364248/3249696)
  avg processing cycles per packet: 179.58 (583593106/3249696)
main thread:
  packets received: 0";
        assert_eq!((cycles(text), cycles("main thread:")), (Some(179.58), None));
        let log = ["T|00005|dpdk|INFO|Using DPDK 22.11.11", "T|00081|bridge|INFO|ovs-vswitchd (Open vSwitch) 3.1.0"];
        let log = log.map(str::to_owned);
        assert_eq!(version(&log).as_deref(), Some("Open vSwitch 3.1.0, DPDK 22.11.11"));
        assert_eq!(version(&log[1..]).as_deref(), Some("Open vSwitch 3.1.0"));
        assert_eq!(version(&log[..1]), None);
    }

    #[test]
    fn a_port_without_a_link_is_found() {
        let show = |state: &str| {
            format!(
                "OFPT_FEATURES_REPLY (xid=0x2): dpid:00001\n 1(a.sock): addr:00:00\n     config:     0\n     state:      {state}
     speed: 0 Mbps now\n LOCAL(br0): addr:5a:c1\n     config:     PORT_DOWN\n     state:      LINK_DOWN\n"
            )
        };
        assert!(have_links(&show("0"), 1) && have_links(&show("LIVE"), 1));
        assert!(!have_links(&show("LINK_DOWN"), 1) && !have_links("", 1));
    }
}
