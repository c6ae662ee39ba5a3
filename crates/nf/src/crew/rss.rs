//! Queue pairs of its own for each worker: the device spreads frames over them, and workers share nothing.
//!
//! Each worker runs its queue pairs of all ports to completion, on a thread of its own. The calling thread only checks that
//! the devices still exist. When a link has broken, all workers end: between two rounds, when none has a packet. The calling
//! thread then reconnects, and starts them again with the new ports.

use super::batch::{Batch, Devices};
use super::error::CrewError;
use super::options::CrewOptions;
use super::threads;
use super::view::{Verdict, View};
use super::worker::Work;
use crate::cycles::Cycles;
use crate::port::{Port, Ports, WorkerPorts};
use crate::run::{Idle, Rounds, RunError};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use vhost_user::frontend::Link;

/// Interval between two checks of the devices.
const LOOK: Duration = Duration::from_millis(100);

/// Runs a crew whose workers have queue pairs of their own.
pub(super) fn run<W>(
    ports: &mut Ports,
    options: &CrewOptions,
    idle: Idle,
    stop: &AtomicBool,
    mut works: Vec<Work<'_, W>>,
) -> Result<(), CrewError>
where
    W: FnMut(&mut View<'_>) -> Verdict + Send,
{
    loop {
        run_while_connected(ports.worker_ports(), options, idle, stop, &mut works)?;
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        ports.mend(stop).map_err(RunError::from)?;
    }
}

/// Runs the workers until `stop` is set, a worker fails, or a device has left.
fn run_while_connected<W>(
    worker_ports: WorkerPorts<'_>,
    options: &CrewOptions,
    idle: Idle,
    stop: &AtomicBool,
    works: &mut [Work<'_, W>],
) -> Result<(), CrewError>
where
    W: FnMut(&mut View<'_>) -> Verdict + Send,
{
    let WorkerPorts { links, ports } = worker_ports;
    let over = &AtomicBool::new(false);
    let is_over = move || over.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed);
    thread::scope(|scope| {
        // However this ends, workers end as well.
        let _over = Over(over);
        let bodies = ports.into_iter().zip(works).map(|(ports, work)| {
            let devices = Devices::new(ports);
            move || {
                let _over = Over(over);
                run_to_completion(devices, work, idle, is_over)
            }
        });
        let workers = threads::start(scope, 1, &options.cpus, bodies)?;
        while !is_over() && links.iter().all(Link::is_connected) {
            thread::park_timeout(LOOK);
        }
        over.store(true, Ordering::Relaxed);
        threads::join(workers)?.into_iter().collect::<Result<(), RunError>>()?;
        Ok(())
    })
}

/// Ends all workers when it is dropped.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Receives, processes and sends until it is over, or a device breaks a ring.
fn run_to_completion<W: FnMut(&mut View<'_>) -> Verdict>(
    mut devices: Devices<'_, Vec<Port>>,
    work: &mut Work<'_, W>,
    idle: Idle,
    is_over: impl Fn() -> bool,
) -> Result<(), RunError> {
    let cycles = Cycles::new();
    let mut rounds = Rounds::new(idle);
    let mut batch = Batch::new();
    let count = devices.count();
    let mut is_whole = true;
    while is_whole && !is_over() {
        let (mut received, mut visits) = (0, 0);
        while visits < count {
            let start = cycles.now();
            let packets = devices.receive(&mut batch);
            visits += u16::from(!devices.has_rest());
            if packets == 0 {
                continue;
            }
            received += packets;
            let claimed = cycles.now();
            let outcome = catch_unwind(AssertUnwindSafe(|| batch.process(count, &mut work.function)));
            let processed = cycles.now();
            if let Err(payload) = outcome {
                devices.discard(&mut batch, "worker-panicked");
                devices.discard_rest("worker-panicked");
                resume_unwind(payload);
            }
            devices.send(&mut batch);
            devices.flush();
            work.counters.add(packets, [start, claimed, processed, cycles.now()]);
        }
        is_whole = devices.end_round(&mut rounds, received)?;
    }
    Ok(())
}
