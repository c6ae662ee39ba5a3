//! A worker by hand between ports that aggregate.

use super::{ByHand, InPlace};
use crate::answers::Answers;
use crate::drops::Drops;
use crate::live::Live;
use crate::port::{RxQueue, TxQueue};
use crate::spec::AggregationSpec;
use crate::stage::aggregate::{Join, Member, PortTraffic, Relay, Split, rules};
use crate::stage::egress::{Egress, EgressStage};
use crate::stage::ingress::{Ingress, IngressStage};
use handover::EventNotifier;
use std::sync::Arc;

impl ByHand {
    /// Returns a worker that moves frames from `input`, where it splits them, to `output`, where it joins them.
    ///
    /// # Panics
    /// If there is no eventfd.
    pub fn aggregating(input: Box<dyn RxQueue>, output: Box<dyn TxQueue>, spec: &AggregationSpec) -> ByHand {
        let notifier = Arc::new(EventNotifier::new().expect("an eventfd"));
        let member = Member {
            port: "wan".into(),
            rules: Arc::new(Live::new(rules(Some(spec), &[]))),
            traffic: Arc::new(PortTraffic::new(1)),
            relay: Arc::new(Relay::new(1, notifier.clone())),
            neighbours: Arc::new(Answers::new(1, crate::neighbour::RING, notifier.clone())),
            refusals: Arc::new(Answers::new(1, crate::stage::aggregate::REFUSALS, notifier)),
        };
        let split: Box<dyn IngressStage> = Box::new(Split::new(member.clone(), 0, Arc::<Drops>::default()));
        let join: Box<dyn EgressStage> = Box::new(Join::new(member, 0, Arc::<Drops>::default()));
        let ingress = Ingress { half: input, stages: [split].into_iter().collect() };
        ByHand::between(ingress, Egress::of(output, [join]), InPlace::Never)
    }
}
