//! The thread that keeps a DPDK port open.

use super::Settings;
use super::device::Device;
use super::queue::DpdkQueue;
use crate::port::unfinished::Unfinished;
use crate::port::{Opened, PortControl, Site, zero_copy};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which an open device is checked.
const CHECK: Duration = Duration::from_millis(50);

/// First pause before another attempt to open the device; each is twice as long as the one before, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The thread, which ends when this is dropped.
pub(super) struct PortThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PortThread {
    /// Opens the port now if possible, and again whenever it has failed.
    pub(super) fn spawn(settings: &Settings, site: Arc<dyn Site>) -> std::io::Result<Opened> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut upkeep = Upkeep { settings: settings.clone(), site, stop: stop.clone(), told: None };
        let opened = upkeep.open();
        let trouble = opened.as_ref().err().cloned();
        let thread = std::thread::Builder::new().name(format!("dpdk-{}", upkeep.site.name()));
        let thread = thread.spawn(move || upkeep.run(opened))?;
        Ok(Opened { control: Box::new(PortThread { stop, thread: Some(thread) }), trouble })
    }
}

impl PortControl for PortThread {}

impl Drop for PortThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// State of a [`PortThread`]'s thread.
struct Upkeep {
    settings: Settings,
    site: Arc<dyn Site>,
    stop: Arc<AtomicBool>,
    /// Last logged reason why the port is down, if it is.
    told: Option<String>,
}

impl Upkeep {
    fn run(mut self, mut opened: Result<Arc<Device>, String>) {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Ok(device) = &opened {
                let why = self.serve(device);
                self.close();
                let Some(why) = why else { return };
                self.set_down(why);
                pause = FIRST_PAUSE;
            }
            // The device is closed with its last queue, before it is opened again.
            drop(opened);
            if !self.wait(pause) {
                return;
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
            opened = self.open();
        }
    }

    /// Opens the device and gives its queues to workers.
    fn open(&mut self) -> Result<Arc<Device>, String> {
        let opened = Device::open(&self.settings, &self.site).and_then(|(device, sides)| {
            let attach = |(index, sides)| {
                zero_copy::attach(&self.site, index, Box::new(DpdkQueue::new(device.clone(), index, sides)))
            };
            if let Err(why) = sides.into_iter().enumerate().try_for_each(attach) {
                self.close();
                return Err(why);
            }
            Ok(device)
        });
        match &opened {
            Ok(device) => self.show(device),
            Err(why) => self.set_down(why.clone()),
        }
        opened
    }

    fn close(&self) {
        self.site.physical_down();
        self.site.clear(self.site.queues());
    }

    /// Checks the device until it cannot continue, and returns why; `None` if it has to be closed.
    fn serve(&mut self, device: &Device) -> Option<String> {
        let (mut losses, mut trouble, mut is_told) = (device.losses(), device.trouble(), false);
        loop {
            if !self.wait(CHECK) {
                return None;
            }
            let now = device.losses();
            for ((reason, now), (_, before)) in now.iter().zip(losses).filter(|((_, now), (_, before))| now > before) {
                self.site.drops().add(*reason, now - before);
            }
            // They begin anew when the device is attached again.
            losses = now;
            if device.failed.load(Ordering::Relaxed) {
                return Some("a queue of its device could not be stopped or started".to_owned());
            }
            let is_unfinished = device.unfinished.as_ref().is_some_and(Unfinished::is_seen);
            let changed = std::mem::replace(&mut trouble, device.trouble()) != trouble;
            if changed || is_unfinished && !std::mem::replace(&mut is_told, true) {
                self.show(device);
            }
        }
    }

    /// Waits. Returns false if the port has to be closed.
    fn wait(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.stop.load(Ordering::Relaxed) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::park_timeout(left);
        }
        false
    }

    /// Updates the state of the port, whose queues workers have.
    fn show(&mut self, device: &Device) {
        match device.trouble() {
            Some(why) => self.set_down(why),
            None => {
                let detail = device.describe();
                if self.told.take().is_some() {
                    tracing::info!("port \"{}\" is up: {detail}", self.site.name());
                }
                let (mac, speed) = device.interface();
                self.site.set_interface(mac, speed);
                self.site.set_state(true, detail);
            }
        }
    }

    fn set_down(&mut self, why: String) {
        if self.told.as_ref() != Some(&why) {
            tracing::warn!("port \"{}\" is down: {why}", self.site.name());
            self.told = Some(why.clone());
        }
        self.site.set_state(false, why);
    }
}
