//! The switch in a network card that has virtual functions (SR-IOV).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::contract::{PortKind, Running, Setup, SwitchKind, SwitchPort, Unavailable};
use crate::process;
use crate::steps::Steps;
use crate::{Error, Result, output_of};

/// Directory of all interfaces.
const INTERFACES: &str = "/sys/class/net";

/// Time limit for the driver of a new virtual function to make its interface.
const LIMIT: Duration = Duration::from_secs(60);

/// Interval of checks for it.
const LOOK: Duration = Duration::from_millis(20);

/// The switch in a network card.
pub struct Sriov;

impl SwitchKind for Sriov {
    fn name(&self) -> &'static str {
        "sriov"
    }

    fn about(&self) -> &'static str {
        "the switch in a network card with virtual functions (SR-IOV)"
    }

    fn ports(&self) -> &'static [PortKind] {
        &[PortKind::VirtualFunction]
    }

    /// It forwards by address, too, but knows the addresses from its driver.
    fn learns(&self) -> bool {
        true
    }

    fn processors(&self) -> usize {
        0
    }

    fn available(&self) -> std::result::Result<String, Unavailable> {
        let card = Card::find(Path::new(INTERFACES), 2)?;
        Ok(format!("{} ({})", card.interface, card.driver().unwrap_or_else(|| "unknown driver".to_owned())))
    }

    /// Makes a virtual function for each port, as the kernel's manual says (PCI/pci-iov-howto.rst), and lets it have any address
    /// (ip-link(8), vf).
    fn start(&self, setup: &Setup<'_>) -> Result<Box<dyn Running>> {
        let count = setup.ports.len();
        let card = Card::find(Path::new(INTERFACES), count).map_err(Error::other("looking for a network card"))?;
        let mut functions = Functions { card, steps: Steps::default() };
        functions.make(count)?;
        for (number, port) in setup.ports.iter().enumerate() {
            let SwitchPort::VirtualFunction(name) = port else {
                return Err(Error::malformed("the ports of sriov", "it has virtual functions only"));
            };
            functions.give(number, setup, name)?;
        }
        Ok(Box::new(functions))
    }
}

/// A network card.
struct Card {
    interface: String,
    /// Its directory in /sys.
    device: PathBuf,
}

impl Card {
    /// Returns the first card that can have that many virtual `functions` and has none.
    fn find(interfaces: &Path, functions: usize) -> std::result::Result<Card, Unavailable> {
        let entries = std::fs::read_dir(interfaces).into_iter().flatten().flatten();
        let cards = entries.map(|entry| Card {
            interface: entry.file_name().to_string_lossy().into_owned(),
            device: entry.path().join("device"),
        });
        let mut cards: Vec<Card> = cards.filter(|card| card.number("sriov_totalvfs") >= functions.max(1)).collect();
        cards.sort_by(|a, b| a.interface.cmp(&b.interface));
        if cards.is_empty() {
            let advice = "enable SR-IOV in the firmware, or use another network card";
            return Err(Unavailable(format!("no network card can have {functions} virtual functions: {advice}")));
        }
        let in_use: Vec<String> = cards.iter().map(|card| card.interface.clone()).collect();
        cards.into_iter().find(|card| card.number("sriov_numvfs") == 0).ok_or_else(|| {
            let names = in_use.join(", ");
            Unavailable(format!("others use virtual functions of {names}: remove them (echo 0 > .../sriov_numvfs)"))
        })
    }

    fn number(&self, file: &str) -> usize {
        let text = std::fs::read_to_string(self.device.join(file));
        text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    fn driver(&self) -> Option<String> {
        Some(self.device.join("driver").read_link().ok()?.file_name()?.to_string_lossy().into_owned())
    }
}

/// The virtual functions of a card.
struct Functions {
    card: Card,
    steps: Steps,
}

impl Functions {
    fn make(&mut self, count: usize) -> Result<()> {
        let file = self.card.device.join("sriov_numvfs");
        self.steps.add(format!("echo {count} > {}", file.display()));
        std::fs::write(&file, count.to_string()).map_err(Error::io(format!("writing {}", file.display())))?;
        let interface = self.card.interface.clone();
        self.run(&["ip", "link", "set", &interface, "up"])
    }

    /// Gives a virtual function to the switch's namespace, as an interface of this name.
    fn give(&mut self, number: usize, setup: &Setup<'_>, name: &str) -> Result<()> {
        let card = self.card.interface.clone();
        self.run(&["ip", "link", "set", &card, "vf", &number.to_string(), "trust", "on", "spoofchk", "off"])?;
        let interface = self.interface(number, setup)?;
        self.run(&["ip", "link", "set", &interface, "netns", setup.namespace.name(), "name", name])?;
        self.steps.run(setup.namespace, &["ip", "link", "set", name, "up"]).map(drop)
    }

    /// Waits for the interface of a virtual function.
    fn interface(&self, number: usize, setup: &Setup<'_>) -> Result<String> {
        let directory = self.card.device.join(format!("virtfn{number}/net"));
        let deadline = Instant::now() + LIMIT;
        loop {
            let mut entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
            if let Some(entry) = entries.next() {
                return Ok(entry.file_name().to_string_lossy().into_owned());
            }
            if Instant::now() >= deadline {
                let problem = format!("its driver has made no interface within {LIMIT:?}");
                return Err(Error::malformed(directory.display().to_string(), problem));
            }
            setup.interrupt.sleep(LOOK)?;
        }
    }

    fn run(&mut self, words: &[&str]) -> Result<()> {
        self.steps.add(process::line(words[0], &words[1..]));
        output_of(Command::new(words[0]).args(&words[1..])).map(drop)
    }
}

impl Running for Functions {
    fn check(&mut self) -> Result<()> {
        Ok(())
    }

    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    fn commands(&self) -> Vec<String> {
        self.steps.lines()
    }
}

impl Drop for Functions {
    fn drop(&mut self) {
        // Their interfaces end with them, in every namespace. A failure cannot be reported here.
        let _ = std::fs::write(self.card.device.join("sriov_numvfs"), "0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an interface of a card with these numbers of possible and existing virtual functions.
    fn add(interfaces: &Path, name: &str, total: usize, present: usize) {
        let device = interfaces.join(name).join("device");
        std::fs::create_dir_all(&device).unwrap();
        std::fs::write(device.join("sriov_totalvfs"), format!("{total}\n")).unwrap();
        std::fs::write(device.join("sriov_numvfs"), format!("{present}\n")).unwrap();
    }

    #[test]
    fn a_card_with_enough_unused_functions_is_found() {
        let interfaces = tempfile::tempdir().unwrap();
        let find = |functions| Card::find(interfaces.path(), functions).map(|card| card.interface);
        std::fs::create_dir(interfaces.path().join("lo")).unwrap();
        assert!(find(2).unwrap_err().0.contains("no network card"));
        add(interfaces.path(), "eth0", 8, 2);
        assert!(find(2).unwrap_err().0.contains("eth0"));
        add(interfaces.path(), "eth1", 4, 0);
        assert_eq!(find(4).unwrap(), "eth1");
        assert!(find(5).unwrap_err().0.contains("others use"));
    }
}
