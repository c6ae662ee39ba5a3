//! Builds the keys that say what the switch may choose by itself.

use super::check::Check;
use super::raw::{self, Field, RawPort, Section};
use super::value::is_name;
use engine::port::kinds::KINDS;
use engine::spec::{Acceleration, Driver};

pub(super) fn build(field: &Field<raw::Acceleration>) -> Acceleration {
    match field.as_ref().map(|at| at.value) {
        None | Some(raw::Acceleration::Auto) => Acceleration::Auto,
        Some(raw::Acceleration::Off) => Acceleration::Off,
    }
}

/// Returns the name of a port's owner.
pub(super) fn group(check: &mut Check, raw: &Section<RawPort>) -> Option<String> {
    let at = raw.group.as_ref()?;
    if !is_name(at) {
        let message = format!("`{}` cannot name a group", at.value);
        check.error(&at.span, message, "use 1 to 32 letters, digits, `_` and `-`");
    }
    Some(at.value.clone())
}

/// Reports whether all guests trust the program behind a port with their memory.
pub(super) fn trusted(check: &mut Check, raw: &Section<RawPort>, driver: &Driver) -> bool {
    let Some(at) = raw.trusted.as_ref() else { return false };
    if !driver.capabilities().exposes_memory {
        let kinds: Vec<_> =
            KINDS.iter().filter(|(_, kind)| kind.capabilities.exposes_memory).map(|(name, _)| *name).collect();
        let message = format!("`trusted` says nothing at a port of driver {}", driver.name());
        let help =
            format!("remove it: only ports of driver {} give a program access to guests' memory", kinds.join(" and "));
        check.error(&at.span, message, help);
    }
    at.value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use engine::spec::PortSpec;
    use std::path::Path;

    fn parse(top: &str, port: &str) -> Result<(Acceleration, PortSpec), String> {
        let text = format!("{top}\n[[port]]\nname = \"a\"\n{port}");
        let parsed = Config::parse(Path::new("m.toml"), &text);
        let of = |(config, _): (Config, _)| (config.spec.acceleration, config.spec.ports[0].clone());
        parsed.map(of).map_err(|report| report.to_string())
    }

    const VHOST: &str = "driver = \"vhost-user\"\nsocket = \"a\"\n";
    const VIRTIO: &str = "driver = \"virtio-user\"\nsocket = \"a\"\n";

    #[test]
    fn keys_are_read() {
        let (acceleration, port) = parse("", VHOST).unwrap();
        assert_eq!((acceleration, port.acceleration), (Acceleration::Auto, Acceleration::Auto));
        assert_eq!((port.group, port.trusted), (None, false));
        let keys = [VIRTIO, "acceleration = \"off\"\ngroup = \"owner-1\"\ntrusted = true"].concat();
        let (acceleration, port) = parse("acceleration = \"off\"", &keys).unwrap();
        assert_eq!((acceleration, port.acceleration), (Acceleration::Off, Acceleration::Off));
        assert_eq!((port.group.as_deref(), port.trusted), (Some("owner-1"), true));
    }

    #[test]
    fn wrong_keys_are_refused() {
        for (top, key, part) in [
            ("acceleration = \"on\"", "", "unknown value `on`"),
            ("", "acceleration = true", "acceleration"),
            ("", "group = \"a b\"", "`a b` cannot name a group"),
            ("", "trusted = true", "`trusted` says nothing at a port of driver vhost-user"),
            ("", "trusted = true", "only ports of driver virtio-user give a program access"),
        ] {
            let report = parse(top, &[VHOST, key].concat()).unwrap_err();
            assert!(report.contains(part), "{key}: {report}");
        }
    }
}
