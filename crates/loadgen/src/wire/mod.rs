//! The wire: a virtio NIC with a generator and a checker behind it, and a network function behind the switch, both in one
//! thread. Frames go from the wire through the switch to the function, and back unless the function keeps them.
//!
//! The NIC is the device side of a vhost-user socket and writes straight into the buffers that it gets, as the DMA engine of a
//! real one does. [`echo`] is the network function by itself, for a switch that has a NIC of its own.

mod arrivals;
mod device;
mod echo;
mod function;
mod nic;
mod options;
mod tunnel;

pub use device::{Broken, Device};
pub use echo::echo;
pub use function::{Function, FunctionError};
pub use nic::{Nic, NicRings};
pub use options::{FunctionOptions, WireOptions, queue_sizes};

use crate::cpu::{self, PinError};
use crate::cycles;
use crate::load::{Accounts, Conditions, Counts, Header, Nothing, Payload, RUNNING, Report, Tally, Touch, TouchLevel};
use function::Connected;
use std::time::{Duration, Instant};

/// Rounds without a frame after which sleeping peers are notified.
const KICK_ROUNDS: u64 = 64;
/// Seconds of draining: if the switch keeps its processor, all frames in flight arrive.
const DRAIN: f64 = 0.005;
/// Maximum number of drains, after which the rest is given up: two seconds, in which the switch gets its processor on a busy machine,
/// too.
const DRAINS: usize = 400;
/// Time limit for the first frame to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

/// Error that prevents a measurement.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum WireError {
    #[error(transparent)]
    Device(#[from] vhost_user::backend::Error),
    #[error(transparent)]
    Function(#[from] FunctionError),
    #[error("the wire: {0}")]
    Broken(#[from] Broken),
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error("no frame came to its end: is the switch forwarding between the wire and the function?")]
    Nothing,
}

/// Connects both ends, runs, and reports.
pub fn run(wire: &WireOptions) -> Result<Report, WireError> {
    let device = Device::serve(&wire.device, wire.behind.size, !wire.unchecked)?;
    let device = if wire.vxlan { device.inside_vxlan() } else { device };
    let connected = Connected::connect(&wire.behind)?;
    if let Some(cpu) = wire.behind.cpu {
        cpu::pin(cpu)?;
    }
    match wire.behind.touch {
        TouchLevel::None => measure::<Nothing>(wire, device, connected),
        TouchLevel::Header => measure::<Header>(wire, device, connected),
        TouchLevel::Payload => measure::<Payload>(wire, device, connected),
    }
}

fn measure<T: Touch>(wire: &WireOptions, device: Device, connected: Connected) -> Result<Report, WireError> {
    let hz = cycles::frequency();
    let FunctionOptions { warmup, seconds, .. } = wire.behind;
    let conditions = conditions(&wire.behind, &connected);
    let mut ends = Ends { device, connected, window: wire.window, is_sink: wire.sink };
    let mut tally = Tally::default();
    let began = Instant::now();
    // Ports come up one after the other; frames that the switch drops until all are up are not losses.
    while ends.device.counts().received == 0 {
        ends.pump::<T>((0.05 * hz) as u64, &mut tally)?;
        ends.drain::<T>(hz)?;
        if began.elapsed() > PATIENCE {
            return Err(WireError::Nothing);
        }
    }
    eprintln!("{RUNNING}");
    ends.pump::<T>((warmup * hz) as u64, &mut tally)?;
    ends.drain::<T>(hz)?;
    let began = Instant::now();
    loop {
        let before = Accounts { counts: vec![ends.device.counts()], tally };
        let mark = cycles::Mark::now();
        ends.pump::<T>((seconds * hz) as u64, &mut tally)?;
        let elapsed = mark.elapsed();
        let received = ends.device.counts().received;
        ends.drain::<T>(hz)?;
        let after = Accounts { counts: vec![Counts { received, ..ends.device.counts() }], tally };
        let report = Report::between(conditions.clone(), elapsed, &before, &after);
        // On a busy machine the switch may not have had the processor for longer than a short measurement.
        match report.packets {
            0 if began.elapsed() < PATIENCE => {}
            0 => return Err(WireError::Nothing),
            _ => return Ok(report),
        }
    }
}

fn conditions(at: &FunctionOptions, connected: &Connected) -> Conditions {
    Conditions { size: at.size, touch: at.touch, features: connected.describe(), memory: connected.memory().to_owned() }
}

/// Both ends of the wire.
struct Ends {
    device: Device,
    connected: Connected,
    /// Maximum number of frames in flight.
    window: u64,
    /// Whether the function keeps the frames that it gets.
    is_sink: bool,
}

impl Ends {
    /// Takes the frames in flight, and gives up on the missing ones: without comparison nothing else detects them.
    fn drain<T: Touch>(&mut self, hz: f64) -> Result<(), WireError> {
        let window = std::mem::take(&mut self.window);
        for _ in 0..DRAINS {
            self.pump::<T>((DRAIN * hz) as u64, &mut Tally::default())?;
            if self.device.in_flight() == 0 {
                break;
            }
        }
        self.device.give_up();
        self.window = window;
        Ok(())
    }

    /// Runs both ends for about `duration` cycles.
    fn pump<T: Touch>(&mut self, duration: u64, tally: &mut Tally) -> Result<(), WireError> {
        let Ends { device, connected, window, is_sink } = self;
        let function = &mut connected.function;
        let start = cycles::now();
        let mut last = start;
        let mut idle = 0;
        while last.wrapping_sub(start) < duration {
            let sent = device.turn::<T>(*window)?;
            let got = if *is_sink { function.keep::<T>(device.arrivals())? } else { function.turn::<T>()? };
            let moved = sent + got;
            let now = cycles::now();
            tally.count(moved > 0, now.wrapping_sub(last));
            idle = if moved > 0 { 0 } else { idle + 1 };
            if idle % KICK_ROUNDS == KICK_ROUNDS - 1 {
                device.notify();
                function.kick();
            }
            last = now;
        }
        Ok(())
    }
}
