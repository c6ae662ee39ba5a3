//! Stages: processing of frames between a port's queue and forwarding.
//!
//! A queue that frames come from is an [`ingress::Ingress`]: the port's receive half, then its stages, each of which takes a
//! burst and passes on all or part of it. A queue that frames go to is an [`egress::Egress`]: its stages, then the port's
//! transmit half. [`order`] lists all stages in their order. A queue has those that its port needs; one without stages costs
//! no more than the test of an empty list.

pub(crate) mod aggregate;
pub(crate) mod complete;
pub(crate) mod egress;
pub(crate) mod fault;
pub(crate) mod ingress;
pub(crate) mod list;
mod merge;
pub(crate) mod mirror;
pub(crate) mod order;
pub(crate) mod record;
pub(crate) mod running;
pub(crate) mod setup;
pub(crate) mod shared;
pub(crate) mod staged;
pub(crate) mod stopwatch;
pub(crate) mod taking;
pub(crate) mod tunnel;
