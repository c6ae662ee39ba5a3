//! Checks a configuration against the machine.

use crate::config::Config;
use netdev::{Error, Links};

/// Returns one line for each port whose interface is missing. Such a port is down until the interface appears.
pub fn absent(config: &Config) -> Result<Vec<String>, Error> {
    let links = Links::open()?;
    let mut absent = Vec::new();
    for port in &config.spec.ports {
        let Some(interface) = port.driver.needs_interface() else { continue };
        if links.find(interface)?.is_none() {
            absent.push(format!(
                "port \"{}\": there is no interface \"{interface}\" in this network namespace; the port is down until \
                 there is",
                port.name
            ));
        }
    }
    Ok(absent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn interfaces_that_are_not_there_are_named() {
        let text = "port = [{name='a', driver='af_packet', interface='lo'},
                            {name='b', driver='af_xdp', interface='no-such-netdev'},
                            {name='c', driver='tap', interface='made-by-us'}]";
        let (config, _) = Config::parse(Path::new("m.toml"), text).unwrap_or_else(|report| panic!("{report}"));
        let absent = absent(&config).unwrap();
        assert!(absent.len() == 1 && absent[0].contains("\"b\"") && absent[0].contains("no-such-netdev"), "{absent:?}");
    }
}
