//! A network card of this machine, lent to a host's namespace for a run.

use lab::netns::Namespace;
use lab::{Error, Result, output_of};
use std::process::Command;

/// A lent card; dropping it returns it as it was, to the namespace of this program.
pub struct Card {
    name: String,
    mtu: u64,
    borrower: Namespace,
}

impl Card {
    /// Moves a card to a namespace, where it is up. The kernel sends nothing on it by itself.
    pub fn lend(name: &str, borrower: &Namespace) -> Result<Card> {
        let unknown = || {
            Error::other(format!("looking for the card {name}; `cards` of [other-machine] names one of each machine"))
        };
        let mtu = mtu(&own_ip(&["-json", "link", "show", name]).map_err(unknown())?)
            .ok_or_else(|| Error::malformed("the output of ip", format!("it does not contain the MTU of {name}")))?;
        own_ip(&["link", "set", name, "netns", borrower.name()])?;
        let card = Card { name: name.to_owned(), mtu, borrower: borrower.clone() };
        borrower.run("ip", &["link", "set", name, "addrgenmode", "none", "arp", "off", "up"])?;
        Ok(card)
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        let Card { name, mtu, borrower } = self;
        // The kernel moves it to its first namespace if this fails.
        let thread = rustix::thread::gettid().as_raw_nonzero();
        let own = format!("/proc/{}/task/{thread}/ns/net", std::process::id());
        let _ = borrower.run("ip", &["link", "set", name, "netns", &own]);
        let _ = own_ip(&["link", "set", name, "mtu", &mtu.to_string(), "promisc", "off", "arp", "on", "up"]);
    }
}

fn own_ip(arguments: &[&str]) -> Result<Vec<u8>> {
    output_of(Command::new("ip").args(arguments))
}

/// Returns the MTU in the output of `ip -json link show`.
fn mtu(links: &[u8]) -> Option<u64> {
    let links: serde_json::Value = serde_json::from_slice(links).ok()?;
    links[0]["mtu"].as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_lent_and_comes_back_as_it_was() {
        // In a namespace, so that the machine's own interfaces are left alone.
        let (own, borrower) = (Namespace::create(), Namespace::create());
        let (own, borrower) = (own.unwrap_or_else(|error| panic!("as root: {error}")), borrower.unwrap());
        own.run("ip", &["link", "add", "card", "mtu", "1400", "type", "veth", "peer", "name", "cable"]).unwrap();
        let described = || own.run("ip", &["-json", "link", "show", "card"]).unwrap();
        own.within(|| {
            let card = Card::lend("card", &borrower).unwrap();
            borrower.run("ip", &["link", "set", "card", "mtu", "1600"]).unwrap();
            assert!(own.run("ip", &["link", "show", "card"]).is_err());
            drop(card);
            let error = Card::lend("other", &borrower).map(drop).unwrap_err().to_string();
            assert!(error.contains("other"), "{error}");
        })
        .unwrap();
        assert_eq!(mtu(described().as_bytes()), Some(1400));
        assert!(described().contains("\"UP\"") && !described().contains("NOARP"), "{}", described());
    }
}
