//! The [`Tables`] keep flows with their counters and times, groups, and meters. FLOW_MOD, GROUP_MOD and METER_MOD change them, and with
//! them the rules that workers forward by.

mod all;
mod entry;
mod flow_mod;
mod groups;
mod meters;
mod shared;
mod table;
mod wanted;

pub use all::Tables;
pub(crate) use flow_mod::FlowMod;
pub(crate) use groups::{GroupMod, MAX_GROUPS};
pub(crate) use meters::{MeterMod, Meters};
pub use table::FlowTable;
pub(crate) use wanted::Wanted;
