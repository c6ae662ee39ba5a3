//! Validates and builds `[dpdk]`.

use super::check::Check;
use super::raw::{At, DEFAULT_DPDK_MEMORY, DPDK_MEMORY, RawDpdk, RawFile, Table};
use super::types::Dpdk;
use super::value::device_name;
use settings::Problem;
use std::collections::HashMap;
use std::ops::Range;

const MIB: u64 = 1 << 20;

/// Builds the section, if there is one. Ports are checked against it.
pub(super) fn build(check: &mut Check<'_>, file: &RawFile) -> Option<Dpdk> {
    let section = file.dpdk.as_ref()?;
    let devices = devices(check, section);
    let memory = section.memory.as_ref().map_or(Some(DEFAULT_DPDK_MEMORY), |at| Some(at.value.as_str()));
    let memory = memory.and_then(mebibytes).filter(|memory| DPDK_MEMORY.contains(memory));
    if memory.is_none()
        && let Some(at) = section.memory.as_ref()
    {
        let help = format!("give a number and a unit, from \"{}M\" to \"1024G\"", DPDK_MEMORY.start);
        check.error(&at.span, format!("`memory` cannot be `{}`", at.value), help);
    }
    Some(Dpdk { devices, memory: memory.unwrap_or(DPDK_MEMORY.start) * MIB })
}

fn devices(check: &mut Check<'_>, section: &At<Table<RawDpdk>>) -> Vec<String> {
    let list = check.required(&section.span, "devices", &section.devices, "devices = [\"0000:3b:00.0\"]");
    let mut known: HashMap<&str, &Range<usize>> = HashMap::new();
    for at in list.iter().flat_map(|list| &list.value) {
        // An option of DPDK would begin with a dash.
        if device_name(at).is_empty() || at.starts_with('-') || at.contains(|c: char| c.is_whitespace() || c == '\0') {
            let help = "give a PCI address, or the name of a virtual device and its arguments without spaces";
            check.error(&at.span, format!("`{}` cannot name a device", at.value), help);
        }
        if let Some(first) = known.insert(device_name(at), &at.span) {
            let problem =
                Problem::error(&at.span, format!("device `{}` is listed twice", device_name(at)), "remove one");
            check.problems.push(problem.and_at(first, "already listed here"));
        }
    }
    list.iter().flat_map(|list| &list.value).map(|at| at.value.clone()).collect()
}

/// Parses a size with its unit.
fn mebibytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let factor = match unit {
        "M" => 1,
        "G" => 1024,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use std::path::Path;

    fn parse(text: &str) -> Result<Option<Dpdk>, String> {
        let parsed = Config::parse(Path::new("m.toml"), text);
        parsed.map(|(config, _)| config.dpdk).map_err(|report| report.to_string())
    }

    fn port(name: &str, device: &str) -> String {
        format!("[[port]]\nname='{name}'\ndriver='dpdk'\ndevice='{device}'\n")
    }

    #[test]
    fn devices_and_memory_are_read() {
        let text = "dpdk = {devices = ['0000:3b:00.0', 'net_tap0,iface=t'], memory = '1G'}\n";
        let ports = port("a", "0000:3b:00.0") + &port("b", "net_tap0");
        let devices = vec!["0000:3b:00.0".to_owned(), "net_tap0,iface=t".to_owned()];
        assert_eq!(parse(&(text.to_owned() + &ports)), Ok(Some(Dpdk { devices: devices.clone(), memory: 1 << 30 })));
        let ports = port("a", "0000:3b:00.0") + "unsafe-map-without-iommu=true\n";
        assert_eq!(parse(&(text.to_owned() + &ports)), Ok(Some(Dpdk { devices, memory: 1 << 30 })));
        assert_eq!(parse("dpdk.devices = ['net_null0']").unwrap().unwrap().memory, 128 << 20);
        assert_eq!(parse("port = [{name='a', driver='sink'}]"), Ok(None));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_place() {
        let list = |devices: &str| format!("dpdk.devices = [{devices}]\n");
        for (text, part) in [
            (port("a", "net_null0"), "there is no section [dpdk]"),
            (port("a", "net_null0"), "add [dpdk] with devices = [\"net_null0\"]"),
            (port("a", "net_null0"), "m.toml:4:8"),
            (list("'net_null1'") + &port("a", "net_null0"), "does not list device `net_null0`"),
            (list("'net_null0'") + &port("a", "net_null0") + &port("b", "net_null0"), "already has a port"),
            (list("'net_null0', 'net_null0,size=64'"), "device `net_null0` is listed twice"),
            (list("'--no-pci'"), "`--no-pci` cannot name a device"),
            (list("'a b'"), "`a b` cannot name a device"),
            (list("''"), "`` cannot name a device"),
            ("dpdk.memory = '64M'".into(), "`devices` is missing"),
            (list("'net_null0'") + "dpdk.memory = '64'", "`memory` cannot be `64`"),
            (list("'net_null0'") + "dpdk.memory = '1M'", "from \"32M\" to \"1024G\""),
            (list("'net_null0'") + "[[port]]\nname='a'\ndriver='dpdk'", "`device` is missing"),
            (
                list("'net_null0'") + &port("a", "net_null0") + "unsafe-map-without-iommu=true",
                "`unsafe-map-without-iommu` means nothing for a virtual device",
            ),
            (list("'net_null0'") + &port("a", "net_null0") + "interface='eth0'", "A device is named by `device`"),
        ] {
            let report = parse(&text).unwrap_err();
            assert!(report.contains(part), "{text}: {report}");
        }
    }
}
