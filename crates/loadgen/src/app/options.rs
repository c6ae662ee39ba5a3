//! Command line of a traffic application.

use super::stamp::SHORTEST;
use crate::endpoint::Technique;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Role of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Sends packets.
    Sender,
    /// Receives and checks packets.
    Receiver,
    /// Sends packets, and measures how long each takes until it comes back.
    Client,
    /// Returns each packet.
    Server,
    /// Senders and receivers of all pairs of ports, in one thread.
    SenderReceiver,
    /// Clients and servers of all pairs of ports, in one thread.
    ClientServer,
}

/// Rate at which packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Rate {
    /// As fast as they are taken.
    Max,
    /// Packets per second of each sender, whether or not they are taken.
    PerSecond(f64),
}

/// Length of packets: of the whole frame, without its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Size {
    /// All have this length.
    Bytes(u16),
    /// The simple mix of the Internet: 7 of 64 bytes, 4 of 594, 1 of 1518, in a fixed order.
    Imix,
}

/// Times at which packets are due, if they have a rate. All have the same mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Arrivals {
    /// Bursts at equal intervals.
    Constant,
    /// Bursts at intervals that are exponentially distributed.
    Poisson,
    /// Bursts at equal intervals for `on` milliseconds, and none for `off` milliseconds.
    OnOff {
        /// Milliseconds with packets.
        on: u32,
        /// Milliseconds without.
        off: u32,
    },
}

/// Part of every packet that is written and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Touch {
    /// The stamp.
    None,
    /// The stamp, and the headers unless the kernel has taken them off.
    Header,
    /// Every byte.
    Full,
}

/// A traffic application.
#[derive(Clone, Debug, Args)]
pub struct AppOptions {
    /// Role of the application
    #[arg(value_enum)]
    pub role: Role,
    /// Technique to send and receive with
    #[arg(long, value_enum)]
    pub technique: Technique,
    /// Its ports: interfaces (NAME, or NAME@FILE in the network namespace of this file), or vhost-user sockets. Pairs take two
    /// for each pair: 0 and 1 are one, 2 and 3 the next
    #[arg(long = "port", required = true, value_name = "PORT")]
    pub ports: Vec<String>,
    /// Number of the first port's endpoint, which its addresses follow from; the peer of an even one is the next one
    #[arg(long, default_value_t = 0)]
    pub number: u8,
    /// Bytes of a frame without its checksum, or `imix`
    #[arg(long, default_value = "64")]
    pub size: Size,
    /// Packets per second of each sender, or `max`
    #[arg(long, default_value = "max")]
    pub rate: Rate,
    /// When packets are due: `constant`, `poisson`, or `on-off:ON/OFF` in milliseconds
    #[arg(long, default_value = "constant")]
    pub arrivals: Arrivals,
    /// Packets sent at once
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub burst: u16,
    /// Part of every packet that is written and read
    #[arg(long, value_enum, default_value_t = Touch::Full)]
    pub touch: Touch,
    /// Maximum number of packets of a pair in flight, with the rate `max`, if both of its ends are in this process; 0 is any number
    #[arg(long, default_value_t = 0)]
    pub window: u64,
    /// Packets that each sender sends at most in the measured seconds, if no rate is given: one burst; 0 is any number
    #[arg(long, default_value_t = 0)]
    pub packets: u64,
    /// Seconds before those that are measured
    #[arg(long, default_value_t = 0.5)]
    pub warmup: f64,
    /// Seconds that are measured
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Seconds after those that are measured
    #[arg(long, default_value_t = 0.2)]
    pub cooldown: f64,
    /// Processor that it runs on
    #[arg(long)]
    pub cpu: Option<usize>,
    /// Descriptors of each virtio queue, a power of two
    #[arg(long, default_value_t = 256, value_parser = crate::load::power_of_two)]
    pub queue_size: u16,
    /// Ask for packed virtio rings
    #[arg(long)]
    pub packed: bool,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Max => f.write_str("max"),
            Rate::PerSecond(rate) => write!(f, "{rate}"),
        }
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        match text.parse::<f64>() {
            _ if text == "max" => Ok(Rate::Max),
            Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(Rate::PerSecond(rate)),
            _ => Err(format!("{text:?} is not a rate: give packets per second, such as 1000000 or 1e6, or \"max\"")),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Bytes(bytes) => write!(f, "{bytes}"),
            Size::Imix => f.write_str("imix"),
        }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let long = 1518;
        match text.parse::<u16>() {
            _ if text == "imix" => Ok(Size::Imix),
            Ok(bytes) if (SHORTEST..=long).contains(&bytes) => Ok(Size::Bytes(bytes)),
            _ => Err(format!("{text:?} is not a frame size: give {SHORTEST} to {long} bytes, or \"imix\"")),
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arrivals::Constant => f.write_str("constant"),
            Arrivals::Poisson => f.write_str("poisson"),
            Arrivals::OnOff { on, off } => write!(f, "on-off:{on}/{off}"),
        }
    }
}

impl FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Arrivals, String> {
        let wrong = || {
            format!(
                "{text:?} is not an arrival process: give \"constant\", \"poisson\", or \"on-off:ON/OFF\" in milliseconds"
            )
        };
        match text {
            "constant" => Ok(Arrivals::Constant),
            "poisson" => Ok(Arrivals::Poisson),
            _ => {
                let (on, off) = text.strip_prefix("on-off:").and_then(|rest| rest.split_once('/')).ok_or_else(wrong)?;
                let times = (on.parse::<u32>(), off.parse::<u32>());
                let (Ok(on @ 1..), Ok(off)) = times else { return Err(wrong()) };
                Ok(Arrivals::OnOff { on, off })
            }
        }
    }
}

/// Lets a type be a string in JSON and TOML, as on the command line.
macro_rules! as_string {
    ($($type:ty),*) => {$(
        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.to_string()
            }
        }

        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<$type, String> {
                text.parse()
            }
        }
    )*};
}

as_string!(Rate, Size, Arrivals);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_they_are_read() {
        for text in ["max", "1500"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        for text in ["64", "1518", "imix"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
        for text in ["constant", "poisson", "on-off:5/20"] {
            assert_eq!(text.parse::<Arrivals>().unwrap().to_string(), text);
        }
        assert_eq!("1e6".parse(), Ok(Rate::PerSecond(1e6)));
    }

    #[test]
    fn wrong_values_are_refused_with_the_possible_ones() {
        for text in ["0", "-1", "NaN", "inf", "fast"] {
            assert!(text.parse::<Rate>().unwrap_err().contains("packets per second"), "{text}");
        }
        for text in ["63", "1519", "tiny"] {
            assert!(text.parse::<Size>().unwrap_err().contains("64 to 1518"), "{text}");
        }
        for text in ["on-off:0/5", "on-off:5", "random"] {
            assert!(text.parse::<Arrivals>().unwrap_err().contains("on-off:ON/OFF"), "{text}");
        }
    }
}
