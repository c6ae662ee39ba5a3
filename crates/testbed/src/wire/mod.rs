//! The wire: a virtio NIC with a generator and a checker behind it, and a network function behind the switch, both in
//! one thread. Frames go from the wire through the switch to the function, and back.
//!
//! The NIC is the device side of a vhost-user socket and writes straight into whatever buffers it is given, as the DMA
//! engine of a real one does.

mod device;
mod function;
mod options;
mod tunnel;

pub use options::Wire;

use crate::cpu::{self, PinError};
use crate::cycles;
use crate::load::{Header, Nothing, Payload, RUNNING, Report, Shape, Tally, Touch, TouchLevel};
use device::{Broken, Device};
use function::{Function, FunctionError};
use std::time::{Duration, Instant};

/// Rounds without a frame after which sleeping peers are woken.
const KICK_ROUNDS: u64 = 64;
/// How long the switch may take until the first frame is back.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why there is no measurement.
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
    #[error("no frame came back: is the switch forwarding between the wire and the function?")]
    Nothing,
}

/// Connects both ends, runs, and reports.
pub fn run(wire: &Wire) -> Result<Report, WireError> {
    let there = Shape::new(0, 1, wire.size);
    let back = Shape::new(1, 0, wire.size);
    let device = Device::new(&wire.device, (there, back), wire.vxlan)?;
    let function = Function::connect(wire)?;
    if let Some(cpu) = wire.cpu {
        cpu::pin(cpu)?;
    }
    match wire.touch {
        TouchLevel::None => measure::<Nothing>(wire, device, function),
        TouchLevel::Header => measure::<Header>(wire, device, function),
        TouchLevel::Payload => measure::<Payload>(wire, device, function),
    }
}

fn measure<T: Touch>(wire: &Wire, mut device: Device, mut function: Function) -> Result<Report, WireError> {
    let hz = cycles::frequency();
    let mut tally = Tally::default();
    let began = Instant::now();
    // Ports come up one after the other; what the switch drops until all of them are is not lost on the way.
    while device.counts().received == 0 {
        pump::<T>(wire, &mut device, &mut function, (0.05 * hz) as u64, &mut tally)?;
        device.give_up();
        if began.elapsed() > PATIENCE {
            return Err(WireError::Nothing);
        }
    }
    eprintln!("{RUNNING}");
    pump::<T>(wire, &mut device, &mut function, (wire.warmup * hz) as u64, &mut tally)?;
    let before = ([device.counts()], tally);
    let mark = cycles::Mark::now();
    pump::<T>(wire, &mut device, &mut function, (wire.seconds * hz) as u64, &mut tally)?;
    let elapsed = mark.elapsed();
    let about = (function.describe(), function.memory().to_owned());
    let after = ([device.counts()], tally);
    let report = Report::between((wire.size, wire.touch), about, elapsed, (&before.0, before.1), (&after.0, after.1));
    if report.packets == 0 { Err(WireError::Nothing) } else { Ok(report) }
}

/// Runs both ends for about `duration` cycles.
fn pump<T: Touch>(
    wire: &Wire,
    device: &mut Device,
    function: &mut Function,
    duration: u64,
    tally: &mut Tally,
) -> Result<(), WireError> {
    let start = cycles::now();
    let mut last = start;
    let mut idle = 0;
    while last.wrapping_sub(start) < duration {
        let moved = device.turn::<T>(wire.window)? + function.turn::<T>()?;
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
