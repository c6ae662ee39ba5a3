//! Functions with packet buffers in areas of the kernel module zcopy.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use virtqueue::exchange::{Counts, Grid, MAX_PAIRS, PageMember, PagePair, PagePlace, Pages, Skipped};
use virtqueue::memory::{Memory, Region};
use zcopy::{Area, Device, Pair};

const _: () = assert!(MAX_PAIRS == zcopy::MAX_PAIRS, "a burst is one call");

/// Functions that exchange pages.
pub(super) struct PageExchange {
    /// The device, or the reason why it can't be used.
    device: Result<Device, String>,
    grid: Arc<Grid>,
    /// The configured one, or else the measured one once a function has joined, or the reason why it can't be measured.
    threshold: Mutex<Option<Result<u32, String>>>,
    /// Areas of the functions, by their numbers.
    areas: Mutex<BTreeMap<u64, Weak<AreaPages>>>,
}

impl PageExchange {
    pub(super) fn new(ports: u16, device: &Path, threshold: Option<u32>) -> PageExchange {
        PageExchange {
            device: Device::find(device).map_err(|error| error.to_string()),
            grid: Arc::new(Grid::new(ports)),
            threshold: Mutex::new(threshold.map(Ok)),
            areas: Mutex::default(),
        }
    }

    pub(super) fn device(&self) -> Option<u64> {
        self.device.as_ref().ok().map(Device::number)
    }

    /// Returns the member with an area in `memory`, at this port.
    pub(super) fn member(&self, port: u16, memory: &Arc<Memory>) -> Option<Arc<PageMember>> {
        let device = self.device.as_ref().ok()?;
        let threshold = self.measured(device)?;
        memory.regions().iter().find_map(|region| {
            let pages = self.adopt(device, region)?;
            let place = PagePlace { grid: self.grid.clone(), port, threshold };
            PageMember::find(pages, region, memory, place).map(Arc::new)
        })
    }

    /// Returns the threshold. Measures it if that was not done before, or failed: memory may have been short.
    fn measured(&self, device: &Device) -> Option<u32> {
        if let Some(known) = self.threshold() {
            return Some(known);
        }
        // Without the lock, so that requests for the reason do not wait.
        let measured = zcopy::threshold(device).map_err(|error| format!("its threshold can't be measured: {error}"));
        *self.threshold.lock().unwrap() = Some(measured);
        self.threshold()
    }

    fn adopt(&self, device: &Device, region: &Region) -> Option<Arc<AreaPages>> {
        // Others are not duplicated.
        region.device().filter(|number| *number == device.number())?;
        let area = device.adopt(region.file.try_clone().ok()?).ok()?;
        let mut areas = self.areas.lock().unwrap();
        if let Some(known) = areas.get(&area.id()).and_then(Weak::upgrade) {
            return Some(known);
        }
        areas.retain(|_, area| area.strong_count() > 0);
        let area = Arc::new(AreaPages(area));
        areas.insert(area.id(), Arc::downgrade(&area));
        Some(area)
    }

    pub(super) fn threshold(&self) -> Option<u32> {
        self.threshold.lock().unwrap().as_ref()?.as_ref().ok().copied()
    }

    pub(super) fn functions(&self) -> usize {
        self.areas.lock().unwrap().values().filter(|area| area.strong_count() > 0).count()
    }

    pub(super) fn reason(&self) -> Option<String> {
        let unmeasured = || self.threshold.lock().unwrap().clone()?.err();
        self.device.as_ref().err().cloned().or_else(unmeasured).map(|why| format!("copy: {why}"))
    }

    pub(super) fn counts(&self, from: u16, to: u16) -> Counts {
        self.grid.counts(from, to)
    }
}

/// An area of the module.
#[derive(Debug)]
struct AreaPages(Area);

impl Pages for AreaPages {
    fn id(&self) -> u64 {
        self.0.id()
    }

    fn exchange(&self, there: &dyn Pages, pairs: &[PagePair]) -> Option<Skipped> {
        let there = there.as_any().downcast_ref::<AreaPages>()?;
        let mut call = [Pair::default(); MAX_PAIRS];
        for (to, &PagePair { here, there, start, len }) in call.iter_mut().zip(pairs) {
            *to = Pair { here, there, start, len };
        }
        let outcome = self.0.exchange(&there.0, call.get(..pairs.len())?).ok()?;
        let mut skipped = Skipped::default();
        if outcome.exchanged() as usize != pairs.len() {
            (0..pairs.len()).filter(|&pair| outcome.is_skipped(pair)).for_each(|pair| skipped.insert(pair));
        }
        Some(skipped)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
