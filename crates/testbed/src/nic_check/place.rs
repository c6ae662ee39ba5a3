//! Where a device is, and what is at the other end of its cable.

use super::options::NicCheck;
use lab::netns::{Namespace, cable};
use lab::{Error, Result};
use netdev::Link;

/// Name of the interface that stands for a device, if the check makes it.
const OWN: &str = "nic-check0";

/// Name of the interface at the other end.
const OTHER: &str = "nic-check1";

/// The other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Far {
    /// A port of this machine, which a second switch has.
    Peer(Peer),
    /// The device itself: what it sends comes back.
    Looped,
    /// Somebody who sends frames and takes them back.
    Echo,
    /// Nobody that is known.
    Nobody,
}

/// A port at the other end of a cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// An interface of the kernel.
    Interface(String),
    /// A device of DPDK, with its arguments.
    Device(String),
}

/// A device with its surroundings.
pub struct Place {
    /// The device, with all its arguments.
    pub device: String,
    /// The other end.
    pub far: Far,
    /// Network namespaces of the switch and of its peer, if they are not this program's.
    pub namespaces: [Option<Namespace>; 2],
}

impl Place {
    /// Finds the other end, or makes one for a virtual device.
    pub fn find(options: &NicCheck) -> Result<Place> {
        let device = options.device.clone();
        if Link::named(&device).is_ok() {
            let target = std::fs::read_link(format!("/sys/class/net/{device}/device")).ok();
            let address = target.as_ref().and_then(|path| path.file_name()?.to_str()).unwrap_or("a PCI address");
            return Err(Error::malformed(device, format!("the kernel has this interface; name its device: {address}")));
        }
        let here = |far| Place { device: device.clone(), far, namespaces: [None, None] };
        if let Some(peer) = &options.peer {
            let is_device = peer.contains(':') || peer.starts_with("net_");
            return match Link::named(peer) {
                Ok(_) => Ok(here(Far::Peer(Peer::Interface(peer.clone())))),
                Err(_) if is_device => Ok(here(Far::Peer(Peer::Device(peer.clone())))),
                Err(error) => Err(Error::other("looking for --peer")(error)),
            };
        }
        if options.looped {
            return Ok(here(Far::Looped));
        }
        if options.echo {
            return Ok(here(Far::Echo));
        }
        match (driver(&device), argument(&device, "iface")) {
            ("net_af_packet", None) => {
                let (near, far) = (Namespace::create()?, Namespace::create()?);
                cable([(&near, OWN), (&far, OTHER)])?;
                Ok(Place {
                    device: format!("{device},iface={OWN}"),
                    far: Far::Peer(Peer::Interface(OTHER.to_owned())),
                    namespaces: [Some(near), Some(far)],
                })
            }
            ("net_tap", given) => {
                let namespace = Namespace::create()?;
                let device = given.map_or_else(|| format!("{device},iface={OWN}"), |_| device.clone());
                Ok(Place {
                    far: Far::Peer(Peer::Interface(given.unwrap_or(OWN).to_owned())),
                    device,
                    namespaces: [Some(namespace.clone()), Some(namespace)],
                })
            }
            ("net_null", _) => Ok(here(Far::Echo)),
            _ => Ok(here(Far::Nobody)),
        }
    }

    /// Describes the other end.
    pub fn about(&self) -> String {
        let made = if self.namespaces[1].is_some() { ", which the check has made" } else { "" };
        match &self.far {
            Far::Peer(Peer::Interface(name)) => format!("the interface {name}{made}"),
            Far::Peer(Peer::Device(device)) => format!("the device {device}"),
            Far::Looped => "the device itself: what it sends comes back".to_owned(),
            Far::Echo => "somebody who sends frames, and gets them back".to_owned(),
            Far::Nobody => "nobody known".to_owned(),
        }
    }
}

/// Returns a device's name, without its arguments.
pub fn name(device: &str) -> &str {
    device.split(',').next().unwrap_or(device)
}

/// Returns the driver of a virtual device: its name, without a number.
fn driver(device: &str) -> &str {
    name(device).trim_end_matches(|digit: char| digit.is_ascii_digit())
}

/// Returns an argument of a virtual device.
fn argument<'d>(device: &'d str, key: &str) -> Option<&'d str> {
    arguments(device).find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// Returns all arguments of a virtual device that have values.
pub fn arguments(device: &str) -> impl Iterator<Item = (&str, &str)> {
    device.split(',').skip(1).filter_map(|argument| argument.split_once('='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        check: NicCheck,
    }

    fn find(line: &[&str]) -> Result<Place> {
        Place::find(&Line::parse_from([&["testbed"], line].concat()).check)
    }

    fn place(line: &[&str]) -> Place {
        find(line).unwrap()
    }

    #[test]
    fn names_that_are_mixed_up_are_refused() {
        let refused = |line: &[&str]| find(line).err().map(|error| error.to_string()).unwrap();
        assert!(refused(&["lo"]).contains("name its device: a PCI address"), "{}", refused(&["lo"]));
        let said = refused(&["0000:3b:00.0", "--peer", "eth77"]);
        assert!(said.contains("eth77"), "{said}");
    }

    #[test]
    fn the_other_end_is_given_or_open() {
        let far = |line: &[&str]| place(line).far;
        assert_eq!(far(&["0000:3b:00.0"]), Far::Nobody);
        assert_eq!(far(&["net_af_packet0,iface=eth1"]), Far::Nobody);
        assert_eq!(far(&["net_null0,size=64"]), Far::Echo);
        assert_eq!(far(&["0000:3b:00.0", "--looped"]), Far::Looped);
        assert_eq!(far(&["0000:3b:00.0", "--peer", "lo"]), Far::Peer(Peer::Interface("lo".to_owned())));
        let device = "0000:3b:00.1".to_owned();
        assert_eq!(far(&["0000:3b:00.0", "--peer", &device]), Far::Peer(Peer::Device(device)));
        assert!(Line::try_parse_from(["testbed", "a", "--peer", "b", "--looped"]).is_err());
    }

    #[test]
    fn virtual_devices_get_another_end() {
        let made = place(&["net_af_packet0,qpairs=1"]);
        assert_eq!(made.device, "net_af_packet0,qpairs=1,iface=nic-check0");
        assert_eq!(made.about(), "the interface nic-check1, which the check has made");
        let [near, far] = made.namespaces.map(|namespace| namespace.expect("it has one"));
        assert_ne!(near.name(), far.name());
        let tap = place(&["net_tap1,iface=tap5"]);
        assert_eq!(
            (tap.device.as_str(), tap.far),
            ("net_tap1,iface=tap5", Far::Peer(Peer::Interface("tap5".to_owned())))
        );
    }
}
