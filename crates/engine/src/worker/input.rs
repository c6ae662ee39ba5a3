//! A queue that one worker polls.

use super::route::Route;
use crate::forward::{BridgePlan, Output, Target};
use crate::port::RxQueue;
use crate::port::zero_copy::{HeaderTest, Source, Timing};
use crate::stage::ingress::Ingress;
use virtqueue::device::Spliced;

/// A queue of an output of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputQueue {
    /// Index of the output in the plan.
    pub(crate) output: usize,
    /// Index of the queue in its port.
    pub(crate) queue: usize,
}

impl OutputQueue {
    /// Takes back chains of a half that this queue kept. Reports whether there were any.
    #[inline(always)]
    pub(super) fn take_returned(self, half: &dyn RxQueue, outputs: &[Output]) -> bool {
        let Some(chains) = half.chains() else { return false };
        let mut any = false;
        outputs[self.output].returned(self.queue, &mut |ids| {
            chains.release(ids);
            any = true;
        });
        any
    }
}

/// A queue that a worker polls. It is up: a guest may have many more queues than it uses.
pub(crate) struct Input {
    pub(crate) route: Route,
    pub(crate) ingress: Ingress,
    /// The queue whose guest lends its buffers to this one, if it is mapped.
    pub(crate) rx_buffers_from: Option<OutputQueue>,
    /// The queue that may keep chains of this one while it sends them, if it is mapped.
    pub(crate) tx_in_place_via: Option<OutputQueue>,
}

impl Input {
    /// Returns the half, with the guest whose buffers it receives into, if both can do that now.
    #[inline(always)]
    pub(super) fn source<'p>(&'p self, outputs: &'p [Output]) -> Source<'p> {
        let lent = || {
            let OutputQueue { output, queue } = self.rx_buffers_from?;
            Some((self.ingress.lends()?, outputs[output].guest(queue)?))
        };
        Source::new(&*self.ingress.half, lent())
    }

    /// Reports whether buffers of one end may hold frames of the other.
    #[inline(always)]
    pub(super) fn is_mapped(&self) -> bool {
        self.rx_buffers_from.is_some() || self.tx_in_place_via.is_some()
    }

    /// Returns the times of its bursts, if it is mapped.
    #[inline(always)]
    pub(super) fn timing<'p>(&'p self, outputs: &'p [Output]) -> Option<&'p Timing> {
        if self.rx_buffers_from.is_some() {
            return self.ingress.half.zero_copy()?.timing();
        }
        let OutputQueue { output, queue } = self.tx_in_place_via?;
        outputs[output].timing(queue)
    }

    /// Moves up to `most` frames from ring to ring, if it is mapped: as long as all go to the other queue of its mapping, and nothing
    /// has to see more of them than their Ethernet headers.
    #[inline(always)]
    pub(super) fn splice(&self, outputs: &[Output], bridges: &[BridgePlan], now: u32, most: usize) -> Spliced {
        let Some(OutputQueue { output, queue }) = self.rx_buffers_from.or(self.tx_in_place_via) else {
            return Spliced::NOTHING;
        };
        if !self.ingress.stages.is_empty() {
            return Spliced::NOTHING;
        }
        match self.route.target {
            Target::Patch(to) if to == output => self.splice_to(&outputs[output], queue, None, most),
            Target::Bridge { bridge, from } => match bridges[bridge].only_to(output, from, now) {
                Some(mut test) => self.splice_to(&outputs[output], queue, Some(&mut test), most),
                None => Spliced::NOTHING,
            },
            _ => Spliced::NOTHING,
        }
    }

    /// Moves up to `most` frames that pass the `test`, if there is any, to this queue of `output`.
    #[inline(always)]
    fn splice_to(&self, output: &Output, queue: usize, test: Option<&mut HeaderTest<'_>>, most: usize) -> Spliced {
        let (half, most) = (&self.ingress.half, most as u16);
        output.splice(queue, self.route.number, |to| {
            let done = if self.rx_buffers_from.is_some() {
                half.zero_copy().zip(to.guest()).map(|(half, guest)| {
                    let done = half.splice(guest, most, test);
                    if done.stopped && done.frames == u32::from(most) {
                        // No burst follows, whose end would lend what is lacking.
                        half.relend(guest);
                    }
                    done
                })
            } else {
                let ring = half.chains().and_then(|chains| chains.ring());
                ring.zip(to.zero_copy()).map(|(ring, to)| to.splice(ring, most, test))
            };
            done.unwrap_or(Spliced::NOTHING)
        })
    }

    /// Returns the length from which an output sends its frames from the guest's memory, or exchanges them, unread.
    #[inline(always)]
    pub(super) fn unread_from(&self, outputs: &[Output]) -> u32 {
        match (&self.route.target, self.tx_in_place_via) {
            (&Target::Patch(to), via) if self.ingress.stages.is_empty() => {
                outputs[to].unread_from(self.route.number, via.filter(|via| via.output == to).map(|via| via.queue))
            }
            _ => u32::MAX,
        }
    }

    /// Takes back chains that an output kept. Reports whether there were any.
    #[inline(always)]
    pub(super) fn take_returned(&self, half: &dyn RxQueue, outputs: &[Output]) -> bool {
        self.tx_in_place_via.is_some_and(|via| via.take_returned(half, outputs))
    }
}
