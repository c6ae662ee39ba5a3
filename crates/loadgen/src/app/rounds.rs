//! The loop over all ends of an application, and the parts of its run.

use super::control::Control;
use super::end::{self, End};
use super::lengths::Lengths;
use super::sending::Sending;
use super::stamp::Phase;
use super::tally::Tally;
use super::{AppError, AppOptions, AppReport, MEASURED, MEASURING, READY, Role, Touch};
use crate::endpoint::{Endpoint, EndpointError, Setup};
use crate::{cpu, cycles};
use std::time::Duration;

/// Microseconds of a round without packets beyond which this thread was not running.
const STALL_MICROS: f64 = 50.0;
/// Seconds between checks of the ends.
const CHECK: f64 = 0.1;
/// Seconds between packets that find out whether one comes through.
const PROBE: f64 = 0.01;
/// Seconds in which a first packet comes through.
const FIRST: f64 = 20.0;
/// Seconds without a packet after which none is in flight any more, and seconds after which this is not waited for.
const DRAIN: (f64, f64) = (0.1, 2.0);
/// Pause between two rounds before sending begins.
const REST: Duration = Duration::from_millis(1);

/// An application with its ports open.
struct App<E> {
    ends: Vec<End<E>>,
    control: Control,
    role: Role,
    hz: f64,
    now: u64,
    /// Time of the last check.
    checked: u64,
    tally: Tally,
}

/// Opens the ports and runs the application over them.
pub fn run<E: Endpoint>(options: &AppOptions) -> Result<AppReport, AppError> {
    let hz = cycles::frequency();
    let control = Control::listen();
    let mut ends = Vec::new();
    for (index, port) in options.ports.iter().enumerate() {
        let (task, addresses) = end::place(options, index);
        let setup = Setup {
            addresses,
            burst: options.burst,
            longest: Lengths::of(options.size).longest(),
            check_headers: options.touch != Touch::None,
            queue_size: options.queue_size,
            packed: options.packed,
        };
        let endpoint = E::open(port, options.technique, &setup)?;
        ends.push(End::new(endpoint, options, task, addresses, hz));
    }
    // Pin only now: threads of the ports must not share the processor with the loop.
    if let Some(cpu) = options.cpu {
        cpu::pin(cpu)?;
    }
    let now = cycles::now();
    let mut app = App { ends, control, role: options.role, hz, now, checked: 0, tally: Tally::default() };
    app.check()?;
    eprintln!("{READY}");
    match options.role {
        Role::Receiver | Role::Server => app.serve(),
        _ => app.measure(options),
    }
}

impl<E: Endpoint> App<E> {
    /// Takes packets in until the end is requested.
    fn serve(&mut self) -> Result<AppReport, AppError> {
        let counted = |app: &App<E>| app.ends.iter().map(End::counted).sum::<u64>();
        let (mut begin, mut end, mut last) = (Tally::default(), Tally::default(), 0);
        while !self.control.ends() {
            let before = self.tally;
            self.round(None)?;
            let count = counted(self);
            if count != last {
                if last == 0 {
                    begin = before;
                }
                (end, last) = (self.tally, count);
            }
        }
        self.drain()?;
        Ok(self.report(end.since(begin)))
    }

    /// Sends, and receives packets that come back or across.
    fn measure(&mut self, options: &AppOptions) -> Result<AppReport, AppError> {
        while !self.control.begins() {
            if self.control.ends() {
                return Err(AppError::NotBegun);
            }
            self.round(None)?;
            std::thread::sleep(REST);
        }
        if self.role != Role::Sender {
            self.wait_for_first()?;
        }
        self.now = cycles::now();
        for sending in self.ends.iter_mut().filter_map(|end| end.sending.as_mut()) {
            sending.begin(self.now);
        }
        self.send(Phase::WarmUp, options.warmup)?;
        eprintln!("{MEASURING}");
        let begin = self.tally;
        self.send(Phase::Measured, options.seconds)?;
        let measured = self.tally.since(begin);
        eprintln!("{MEASURED}");
        self.send(Phase::CoolDown, options.cooldown)?;
        if self.role != Role::Sender {
            self.drain()?;
        }
        Ok(self.report(measured))
    }

    /// Sends single packets until one of each pair has come through.
    fn wait_for_first(&mut self) -> Result<(), AppError> {
        let (begin, mut probed) = (cycles::now(), 0);
        self.now = begin;
        loop {
            let silent = self.ends.iter().filter(|end| end.receiving.is_some() && end.heard() == 0).count();
            if silent == 0 {
                return Ok(());
            }
            if self.after(begin, FIRST) {
                return Err(AppError::Nothing { silent, seconds: FIRST });
            }
            if self.after(probed, PROBE) {
                probed = self.now;
                self.ends.iter_mut().try_for_each(End::probe)?;
            }
            self.round(None)?;
            std::thread::sleep(REST);
        }
    }

    /// Sends for `seconds`, or until the end is requested.
    fn send(&mut self, phase: Phase, seconds: f64) -> Result<(), EndpointError> {
        let begin = self.now;
        while !self.after(begin, seconds) && !self.control.ends() {
            self.round(Some(phase))?;
        }
        Ok(())
    }

    /// Receives packets that are still in flight.
    fn drain(&mut self) -> Result<(), EndpointError> {
        let begin = self.now;
        let mut last = begin;
        while !self.after(last, DRAIN.0) && !self.after(begin, DRAIN.1) {
            if self.round(None)? > 0 {
                last = self.now;
            }
        }
        Ok(())
    }

    /// Reports whether `seconds` have passed since then.
    #[inline(always)]
    fn after(&self, then: u64, seconds: f64) -> bool {
        self.now.saturating_sub(then) as f64 >= seconds * self.hz
    }

    /// Visits every end once, and sends if a phase is given; returns the number of packets moved.
    #[inline(always)]
    fn round(&mut self, phase: Option<Phase>) -> Result<usize, EndpointError> {
        let mut moved = 0;
        for index in 0..self.ends.len() {
            moved += self.ends[index].take_in()?;
            if let Some(phase) = phase {
                let arrived = self.arrived(index);
                moved += self.ends[index].send(self.now, phase, arrived)?;
            }
        }
        let then = cycles::now();
        let took = then.saturating_sub(self.now);
        self.now = then;
        let stall = (STALL_MICROS + E::PACKET_MICROS * moved as f64) * 1e-6 * self.hz;
        if took as f64 > stall {
            self.tally.stalled += took;
            self.ends.iter_mut().filter_map(|end| end.sending.as_mut()).for_each(|sending| sending.postpone(took));
        } else if moved == 0 {
            self.tally.idle += took;
        }
        self.tally.all += took;
        if self.after(self.checked, CHECK) {
            self.check()?;
        }
        Ok(moved)
    }

    /// Returns the index of the end that receives what this one sends, if that is in this process.
    #[inline(always)]
    fn sink(&self, index: usize) -> usize {
        if self.role == Role::SenderReceiver { index ^ 1 } else { index }
    }

    /// Returns the number before which all packets that this end sent have arrived or are given up.
    #[inline(always)]
    fn arrived(&self, index: usize) -> u64 {
        self.ends[self.sink(index)].receiving.as_ref().map_or(0, |receiving| receiving.next())
    }

    #[cold]
    fn check(&mut self) -> Result<(), EndpointError> {
        self.checked = self.now;
        for index in 0..self.ends.len() {
            self.ends[index].check()?;
            if let Some(sent) = self.ends[index].sending.as_ref().and_then(Sending::waits_for) {
                let sink = self.sink(index);
                self.ends[sink].lose_patience(sent);
            }
        }
        Ok(())
    }

    fn report(&mut self, measured: Tally) -> AppReport {
        let Tally { idle, stalled, all } = measured;
        let seconds = all as f64 / self.hz;
        let mut flows = Vec::new();
        self.ends.iter_mut().for_each(|end| end.report(seconds, self.hz, &mut flows));
        AppReport { role: self.role, flows, idle: idle as f64 / all.max(1) as f64, stalled: stalled as f64 / self.hz }
    }
}
