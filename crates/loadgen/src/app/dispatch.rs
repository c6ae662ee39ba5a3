//! From the options of an application to the loop over endpoints of its technique.

use super::{AppError, AppOptions, AppReport, end, rounds};
use crate::endpoint::{AfXdp, InBursts, OneByOne, RawSocket, Technique, Tpacket, UdpSocket, VirtioUser, available};

/// Opens the ports, runs the application to its end, and returns its report. Speaks with the controller on standard input and
/// standard error, so that a process can have one application only.
pub fn run(options: &AppOptions) -> Result<AppReport, AppError> {
    let (ports, of_a_pair) = (options.ports.len(), end::ports_of_a_pair(options.role));
    if ports % of_a_pair != 0 {
        return Err(AppError::Odd { ports });
    }
    let last = usize::from(options.number) + (2 / of_a_pair) * (ports - 1);
    if last > 253 || (of_a_pair == 2 && options.number % 2 == 1) {
        return Err(AppError::Number);
    }
    available(options.technique).map_err(AppError::Unavailable)?;
    match options.technique {
        Technique::Udp => rounds::run::<OneByOne<UdpSocket>>(options),
        Technique::UdpMmsg => rounds::run::<InBursts<UdpSocket>>(options),
        Technique::Raw => rounds::run::<OneByOne<RawSocket>>(options),
        Technique::RawMmsg => rounds::run::<InBursts<RawSocket>>(options),
        Technique::Tpacket => rounds::run::<Tpacket>(options),
        Technique::AfXdp => rounds::run::<AfXdp>(options),
        Technique::VirtioUser => rounds::run::<VirtioUser>(options),
        Technique::VirtioUserDpdk | Technique::Netmap => unreachable!("not available"),
    }
}
