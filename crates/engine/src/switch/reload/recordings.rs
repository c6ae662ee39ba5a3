//! Capture files in a reload: recordings begin and end, and those that stay are mended.

use super::extent::Extent;
use super::transition::Transition;
use crate::port::record::Recorder;
use crate::spec::PortSpec;
use crate::switch::mapping::Mapping;
use crate::switch::open::OpenError;
use crate::switch::shared::PortShared;
use std::sync::Arc;

impl Transition<'_> {
    /// Records the frames of ports to the files of the specification. A recording that stays goes on in the file that is at its
    /// path now.
    pub(super) fn record_ports(&mut self, extent: Extent) {
        self.inner.files.set(self.spec.files());
        let mut begun = Vec::new();
        for (index, (spec, port)) in self.spec.ports.iter().zip(&self.ports).enumerate() {
            if port.recorder().as_ref().map(Recorder::path) != spec.record.as_deref() {
                self.record(spec, port);
                self.findings.mend(index, "record-to");
                begun.push(port.id);
            }
        }
        for (index, (spec, port)) in self.spec.ports.iter().zip(&self.ports).enumerate() {
            if extent == Extent::Differences && !begun.contains(&port.id) {
                continue;
            }
            for recorder in port.recordings() {
                // One that has just failed is tried once more: another recording may have let go of its file.
                let renewed = recorder.renew();
                if renewed != Ok(false) && !begun.contains(&port.id) {
                    self.findings.mend(index, "capture file opened again");
                }
                if let Err(why) = renewed {
                    let problem = format!("cannot record to {}: {why}", recorder.path().display());
                    self.findings.fail(index, OpenError::of(spec, problem));
                }
            }
        }
    }

    /// Records the frames of a port, which may be open, as `spec` says. If its file can't be opened, it is tried again.
    fn record(&self, spec: &PortSpec, port: &PortShared) {
        let recorder = spec.record.as_ref().map(|path| Recorder::new(&spec.name, path, &self.inner.files));
        recorder.iter().for_each(|recorder| _ = recorder.renew());
        let change = || {
            self.inner.fabric.record(port.id, recorder.clone());
            port.recorder().iter().for_each(Recorder::end);
            port.record_to(recorder);
        };
        let mappings: Vec<_> = self.mappings.iter().filter(|mapping| mapping.has_end_at(&port.name)).collect();
        at_rest(&mappings, Box::new(change));
    }
}

/// Runs `change` while nothing is lent by any of `mappings`.
fn at_rest(mappings: &[&Arc<Mapping>], change: Box<dyn FnOnce() + '_>) {
    match mappings {
        [] => change(),
        [first, rest @ ..] => first.at_rest(|| at_rest(rest, change)),
    }
}
