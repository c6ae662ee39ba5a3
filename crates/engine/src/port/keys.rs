//! The keys of a port's section in a configuration file, as the kinds read and check them.

use super::MAX_QUEUES;
use super::pace::Pace;
use packet::MacAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use settings::Checker;
use settings::written::{At, Field};
use std::ops::{Deref, DerefMut, Range};
use std::path::PathBuf;
use vhost_user::Mode;

/// Numbers of queue pairs.
pub(super) const QUEUES: Range<i64> = 1..MAX_QUEUES as i64 + 1;

/// Sizes of rings; powers of two only.
pub(super) const QUEUE_SIZES: Range<i64> = 64..1025;

/// Numbers of frames that come at once.
pub(super) const BURSTS: Range<i64> = 1..1025;

/// The configuration that a port's section is a part of. It collects problems.
pub trait Checks: DerefMut<Target = Checker> {
    /// Returns the path of a socket, which the switch creates if it `listens`.
    fn socket(&mut self, at: &At<String>, listens: bool) -> PathBuf;

    /// Returns the name of an interface. Reports one that another port has.
    fn interface(&mut self, at: &At<String>) -> String;

    /// Returns the DPDK device of this name, with its arguments. Reports one that another port has, or that `[dpdk]` does not list.
    fn device(&mut self, at: &At<String>) -> String;

    /// Returns the path of a capture file that the switch reads.
    fn read_file(&mut self, at: &At<String>) -> PathBuf;

    /// Returns the path of a capture file that the switch writes. Reports one that something else writes.
    fn written_file(&mut self, at: &At<String>) -> PathBuf;
}

/// A port's section while its keys are checked.
pub struct Section<'c> {
    /// Name of the port.
    pub name: &'c str,
    /// Place of the section.
    pub table: &'c Range<usize>,
    /// The configuration.
    pub checks: &'c mut dyn Checks,
}

impl Deref for Section<'_> {
    type Target = Checker;

    fn deref(&self) -> &Checker {
        self.checks
    }
}

impl DerefMut for Section<'_> {
    fn deref_mut(&mut self) -> &mut Checker {
        self.checks
    }
}

impl Section<'_> {
    /// Returns the path of the required `socket`.
    pub(super) fn socket(&mut self, field: &Field<String>, mode: Mode) -> PathBuf {
        let at = self.checks.required(self.table, "socket", field, "socket = \"a.sock\"");
        at.map(|at| self.checks.socket(at, mode == Mode::Server)).unwrap_or_default()
    }

    /// Returns the name of the required `interface`.
    pub(super) fn interface(&mut self, field: &Field<String>) -> String {
        let at = self.checks.required(self.table, "interface", field, "interface = \"eth1\"");
        at.map(|at| self.checks.interface(at)).unwrap_or_default()
    }

    /// Returns the required `device`, with its arguments.
    pub(super) fn device(&mut self, field: &Field<String>) -> String {
        let at = self.checks.required(self.table, "device", field, "device = \"0000:3b:00.0\"");
        at.map(|at| self.checks.device(at)).unwrap_or_default()
    }

    /// Returns the number of queue pairs, by default 1.
    pub(super) fn queues(&mut self, field: &Field<i64>) -> u16 {
        self.number("queues", field, &QUEUES, 1) as u16
    }

    pub(super) fn queue_size(&mut self, field: &Field<i64>, default: i64) -> u16 {
        let size = self.number("queue-size", field, &QUEUE_SIZES, default) as u16;
        if let Some(at) = field.as_ref()
            && !size.is_power_of_two()
        {
            self.error(
                &at.span,
                format!("`queue-size` cannot be {size}: it is not a power of two"),
                format!("give {} or {}", size.next_power_of_two() / 2, size.next_power_of_two()),
            );
        }
        size
    }

    /// Returns the rate of frames that the port makes, by default as fast as possible.
    pub(super) fn pace(&mut self, rate: &Field<i64>, burst: &Field<i64>) -> Pace {
        let burst = self.number("burst", burst, &BURSTS, 1) as u32;
        Pace { rate: self.limit("rate", rate), burst }
    }

    /// Returns a number, by default 0, which means no limit.
    pub(super) fn limit(&mut self, key: &str, field: &Field<i64>) -> u64 {
        self.number(key, field, &(0..i64::MAX), 0) as u64
    }

    /// Returns a MAC address, by default one made from the name of the port.
    pub(super) fn mac(&mut self, field: &Field<String>) -> MacAddr {
        field.as_ref().and_then(|at| self.unicast(at)).unwrap_or_else(|| MacAddr::from_name(self.name))
    }
}

/// Side of a socket that the switch takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Side {
    /// the switch creates the socket and waits
    Server,
    /// the switch connects to the socket, and retries forever
    Client,
}

impl From<Side> for Mode {
    fn from(side: Side) -> Mode {
        match side {
            Side::Server => Mode::Server,
            Side::Client => Mode::Client,
        }
    }
}

pub(super) fn is_on(field: &Field<bool>) -> bool {
    field.as_ref().is_some_and(|at| at.value)
}
