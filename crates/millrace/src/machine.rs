//! Checks a configuration against the machine.

use crate::config::Config;
use engine::port::dpdk;
use netdev::{Error, Links};
use rustix::thread::{CpuSet, sched_setaffinity};
use settings::{FEW, few};
use std::thread;

/// Returns one line for each port whose interface is missing, or one for many, and one for each worker whose CPU is, and one if there is
/// no DPDK for ports that need it. Such a
/// port is down until the interface appears, and such a worker runs on any CPU.
pub fn absent(config: &Config) -> Result<Vec<String>, Error> {
    let links = Links::open()?;
    let mut absent = Vec::new();
    let pinned = config.spec.workers.iter().enumerate().filter_map(|(number, worker)| Some((number, worker.cpu?)));
    let missing = pinned.filter(|&(_, cpu)| !may_use(cpu));
    absent.extend(missing.map(|(number, cpu)| {
        format!("worker {number}: there is no CPU {cpu} that this process may use, so the worker runs on any: give it another `cpu`")
    }));
    if config.dpdk.is_some()
        && let Err(why) = dpdk::find()
    {
        absent.push(format!("[dpdk]: {why}; the switch does not start without it"));
    }
    let mut waiting = Vec::new();
    for port in &config.spec.ports {
        let Some(interface) = port.driver.needs_interface() else { continue };
        if links.find(interface)?.is_none() {
            waiting.push((port.name.as_str(), interface));
        }
    }
    if waiting.len() > FEW {
        let (ports, interfaces): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
        let (ports, interfaces) = (few("port", &ports), few("interface", &interfaces));
        absent.push(format!(
            "{ports}: there are no {interfaces} in this network namespace; the ports are down until there are"
        ));
        return Ok(absent);
    }
    absent.extend(waiting.into_iter().map(|(port, interface)| {
        format!("port \"{port}\": there is no interface \"{interface}\" in this network namespace; the port is down until there is")
    }));
    Ok(absent)
}

/// Reports whether a thread can be pinned to a CPU. The affinity of this one says nothing: others may be allowed.
fn may_use(cpu: usize) -> bool {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return false;
    }
    set.set(cpu);
    let pinned = thread::spawn(move || sched_setaffinity(None, &set).is_ok());
    pinned.join().unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn missing_processors_are_named() {
        let text = "worker = [{}, {cpu=1023}]\nport = [{name='a', driver='af_packet', interface='lo'}]";
        let (config, _) = Config::parse(Path::new("m.toml"), text).unwrap_or_else(|report| panic!("{report}"));
        let absent = absent(&config).unwrap();
        assert!(absent.len() == 1 && absent[0].starts_with("worker 1: there is no CPU 1023"), "{absent:?}");
    }

    #[test]
    fn missing_interfaces_are_named() {
        let text = "port = [{name='a', driver='af_packet', interface='lo'},
                            {name='b', driver='af_xdp', interface='no-such-netdev'},
                            {name='c', driver='tap', interface='made-by-us'}]";
        let (config, _) = Config::parse(Path::new("m.toml"), text).unwrap_or_else(|report| panic!("{report}"));
        let absent = absent(&config).unwrap();
        assert!(absent.len() == 1 && absent[0].contains("\"b\"") && absent[0].contains("no-such-netdev"), "{absent:?}");
    }

    #[test]
    fn many_missing_interfaces_are_counted() {
        let port = |number| format!("{{name='p{number}', driver='af_packet', interface='no-{number}'}}");
        let text = format!("port = [{}]", (0..10).map(port).collect::<Vec<_>>().join(", "));
        let (config, _) = Config::parse(Path::new("m.toml"), &text).unwrap_or_else(|report| panic!("{report}"));
        let expected = "ports p0, p1, p2 and 7 others: there are no interfaces no-0, no-1, no-2 and 7 others in this network \
                        namespace; the ports are down until there are";
        assert_eq!(absent(&config).unwrap(), [expected]);
    }
}
