//! Reasons why frames between two ports are copied, and what users can do about them.

use std::fmt;

/// Reason why the switch does not have a port receive into buffers of another one's guest, or two functions exchange theirs. The
/// names are those of ports, unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::switch) enum Reason {
    /// It was told to choose nothing: at a port, or at all.
    Off(Option<String>),
    /// Neither has a guest.
    NoGuest([String; 2]),
    /// Beside a guest, a port that cannot receive into its buffers.
    Kind {
        port: String,
        driver: &'static str,
    },
    /// Both are guests, of different owners or of none.
    Guests([String; 2]),
    /// A guest has no group to exchange with.
    Alone(String),
    /// A mapping of the specification has the port.
    MappedElsewhere(String),
    /// An exchange of the specification has the port.
    ExchangesElsewhere(String),
    /// Several workers process the frames of a guest's queue.
    Shared(String),
    /// A program behind the physical port would get access to the guest's memory.
    Untrusted {
        physical: String,
        guest: String,
    },
    /// Pages of the guest's memory come and go.
    Balloon {
        guest: String,
        why: &'static str,
    },
    Mirrored(String),
    Recorded(String),
    Faults(String),
    Aggregates(String),
    Tunnel(String),
    /// A bridge has more than two ports.
    Others {
        bridge: String,
        physical: String,
    },
    /// A bridge's controllers decide where frames go.
    Flows(String),
    /// A bridge keeps frames of some VLANs from the guest.
    Vlans {
        bridge: String,
        guest: String,
    },
    /// Workers take turns at a queue.
    Locked(String),
    SeveralWorkers {
        guest: String,
        workers: Vec<usize>,
    },
    /// The worker, by index, sleeps while there are no frames.
    Sleeps {
        worker: usize,
        guest: String,
    },
    /// The physical port has several queues.
    SeveralQueues {
        physical: String,
        guest: String,
    },
    /// A port, or one that it would exchange with, would have to be opened again.
    Open(String),
    /// Nothing connects the two any more.
    Parted,
}

/// The reason, as a clause.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Off(None) => write!(f, "acceleration is off"),
            Reason::Off(Some(port)) => write!(f, "acceleration is off at \"{port}\""),
            Reason::NoGuest([a, b]) => write!(f, "neither \"{a}\" nor \"{b}\" has a guest"),
            Reason::Kind { port, driver } => {
                write!(f, "\"{port}\" is of driver {driver}, which cannot receive into a guest's buffers")
            }
            Reason::Guests([a, b]) => {
                write!(f, "the guests of \"{a}\" and \"{b}\" may not access each other's memory")
            }
            Reason::Alone(port) => write!(f, "\"{port}\" is of no group"),
            Reason::MappedElsewhere(port) => write!(f, "\"{port}\" is in a [[mapping]]"),
            Reason::ExchangesElsewhere(port) => write!(f, "\"{port}\" is in an [[exchange]]"),
            Reason::Shared(port) => {
                write!(f, "several workers read the frames of \"{port}\", so its buffers cannot change hands")
            }
            Reason::Untrusted { physical, guest } => {
                write!(f, "the program behind \"{physical}\" would get access to the memory of \"{guest}\"")
            }
            Reason::Balloon { guest, why } => write!(f, "\"{guest}\" {why}"),
            Reason::Mirrored(port) => {
                write!(f, "a mirror copies the frames of \"{port}\", and a guest could change them before it does")
            }
            Reason::Recorded(port) => write!(f, "frames of \"{port}\" are recorded"),
            Reason::Faults(port) => write!(f, "faults are injected at \"{port}\""),
            Reason::Aggregates(port) => {
                write!(
                    f,
                    "\"{port}\" joins and splits packets, which gains little where frames lie in a guest's memory"
                )
            }
            Reason::Tunnel(port) => {
                write!(
                    f,
                    "\"{port}\" is the end of a tunnel, and a guest could change the headers that the switch checks"
                )
            }
            Reason::Others { bridge, physical } => write!(
                f,
                "bridge \"{bridge}\" has other ports, whose frames \"{physical}\" would receive into a guest's memory, too"
            ),
            Reason::Flows(bridge) => write!(f, "controllers say where frames of bridge \"{bridge}\" go"),
            Reason::Vlans { bridge, guest } => {
                write!(f, "bridge \"{bridge}\" keeps frames of some VLANs from \"{guest}\"")
            }
            Reason::Locked(port) => write!(f, "workers take turns at \"{port}\" (rx-sharing = \"locked\")"),
            Reason::SeveralWorkers { guest, workers } => {
                let workers: Vec<_> = workers.iter().map(usize::to_string).collect();
                write!(f, "workers {} send to \"{guest}\", and only one may lend its buffers", workers.join(", "))
            }
            Reason::Sleeps { worker, guest } => {
                write!(
                    f,
                    "worker {worker} sleeps while no frames come, and does not see that \"{guest}\" has posted buffers"
                )
            }
            Reason::SeveralQueues { physical, guest } => write!(
                f,
                "\"{physical}\" has several queues: if the guest of \"{guest}\" runs fewer, frames of the others would find its \
                 buffers on loan"
            ),
            Reason::Open(port) => write!(f, "\"{port}\" or its peers would have to be opened again, and are in use"),
            Reason::Parted => write!(f, "nothing connects the two any more"),
        }
    }
}

impl Reason {
    /// Returns what users can do so that fewer frames are copied, if anything.
    pub(in crate::switch) fn remedy(&self) -> Option<String> {
        Some(match self {
            Reason::NoGuest(_) | Reason::Kind { .. } | Reason::Recorded(_) | Reason::Faults(_) | Reason::Parted => return None,
            Reason::Off(None) => "remove `acceleration = \"off\"` from the configuration".into(),
            Reason::Off(Some(port)) => format!("remove `acceleration = \"off\"` from port \"{port}\""),
            Reason::Guests(_) => {
                "if they are of one owner, give both ports the same `group`; if not, an [[exchange]] of mode \"zcopy\" exchanges \
                 pages"
                    .into()
            }
            Reason::Alone(port) => format!("give \"{port}\" the `group` of its owner"),
            Reason::MappedElsewhere(_) => "change or remove the [[mapping]]".into(),
            Reason::ExchangesElsewhere(_) => "add both ports to it, or remove the [[exchange]]".into(),
            Reason::Shared(port) => format!("remove `rx-sharing` from \"{port}\""),
            Reason::Untrusted { physical, guest } => format!(
                "set `trusted = true` at \"{physical}\" if it is a NIC, or a program that all guests trust with their memory; or the \
                 same `group` at both if \"{guest}\" has the same owner"
            ),
            Reason::Balloon { guest, .. } => format!("set `holes = \"fill\"` at \"{guest}\", if its guest keeps its memory"),
            Reason::Mirrored(_) => "remove the [[mirror]], or pin a [[mapping]] if the guest is trusted".into(),
            Reason::Aggregates(_) | Reason::Tunnel(_) | Reason::Flows(_) => "pin a [[mapping]] if the guest is trusted".into(),
            Reason::Others { .. } => {
                "pin a [[mapping]] for one of its guests, with `trust` (or `group` at ports of one owner) or `steering`".into()
            }
            Reason::Vlans { .. } => "pin a [[mapping]] if the guest may see frames of all VLANs".into(),
            Reason::Locked(port) => format!("share the queues of \"{port}\" by rx-sharing = \"static-role\""),
            Reason::SeveralWorkers { .. } => {
                "let one [[worker]] poll both ports, or pin a [[mapping]] for each pair of queues".into()
            }
            Reason::Sleeps { .. } => {
                "use `idle = \"backoff\"` or \"poll\" at this [[worker]], or pin a [[mapping]] if the first frames may be lost".into()
            }
            Reason::SeveralQueues { physical, .. } => {
                format!("give \"{physical}\" one queue, or pin a [[mapping]] if the guest runs as many queues")
            }
            Reason::Open(_) => {
                "start the switch again, or reload with `acceleration = \"off\"` and once more without, after which guests have to \
                 connect again"
                    .into()
            }
        })
    }
}
