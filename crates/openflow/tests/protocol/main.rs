//! The switch's end of OpenFlow: its messages, its tables and its actions, against controllers and against models.

mod bounded;
mod bundles;
mod controller;
mod groups_and_meters;
mod malformed;
mod messages;
mod ovs_ofctl;
mod rewrite;
mod server;
mod table;
