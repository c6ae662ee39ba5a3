//! Numbers of the OpenFlow 1.3.5 specification (ONF TS-023), named as there.
#![allow(missing_docs)] // Each name is explained in the specification.

/// Version 1.3 in message headers.
pub const VERSION: u8 = 4;
/// Length of a message header.
pub const HEADER_LEN: usize = 8;
/// Stands for "not buffered".
pub const NO_BUFFER: u32 = u32::MAX;
/// Stands for all tables in requests.
pub const TABLE_ALL: u8 = u8::MAX;

/// Message types (Section 7.1).
pub mod message {
    pub const HELLO: u8 = 0;
    pub const ERROR: u8 = 1;
    pub const ECHO_REQUEST: u8 = 2;
    pub const ECHO_REPLY: u8 = 3;
    pub const EXPERIMENTER: u8 = 4;
    pub const FEATURES_REQUEST: u8 = 5;
    pub const FEATURES_REPLY: u8 = 6;
    pub const GET_CONFIG_REQUEST: u8 = 7;
    pub const GET_CONFIG_REPLY: u8 = 8;
    pub const SET_CONFIG: u8 = 9;
    pub const PACKET_IN: u8 = 10;
    pub const FLOW_REMOVED: u8 = 11;
    pub const PORT_STATUS: u8 = 12;
    pub const PACKET_OUT: u8 = 13;
    pub const FLOW_MOD: u8 = 14;
    pub const GROUP_MOD: u8 = 15;
    pub const PORT_MOD: u8 = 16;
    pub const TABLE_MOD: u8 = 17;
    pub const MULTIPART_REQUEST: u8 = 18;
    pub const MULTIPART_REPLY: u8 = 19;
    pub const BARRIER_REQUEST: u8 = 20;
    pub const BARRIER_REPLY: u8 = 21;
    pub const QUEUE_GET_CONFIG_REQUEST: u8 = 22;
    pub const QUEUE_GET_CONFIG_REPLY: u8 = 23;
    pub const ROLE_REQUEST: u8 = 24;
    pub const ROLE_REPLY: u8 = 25;
    pub const GET_ASYNC_REQUEST: u8 = 26;
    pub const GET_ASYNC_REPLY: u8 = 27;
    pub const SET_ASYNC: u8 = 28;
    pub const METER_MOD: u8 = 29;
}

/// Reserved ports (Section 7.2.1).
pub mod port {
    pub const MAX: u32 = 0xffff_ff00;
    pub const IN_PORT: u32 = 0xffff_fff8;
    pub const TABLE: u32 = 0xffff_fff9;
    pub const NORMAL: u32 = 0xffff_fffa;
    pub const FLOOD: u32 = 0xffff_fffb;
    pub const ALL: u32 = 0xffff_fffc;
    pub const CONTROLLER: u32 = 0xffff_fffd;
    pub const LOCAL: u32 = 0xffff_fffe;
    pub const ANY: u32 = 0xffff_ffff;
}

/// Configuration of ports (Section 7.2.1).
pub mod port_config {
    pub const DOWN: u32 = 1;
    pub const NO_RECV: u32 = 4;
    pub const NO_FWD: u32 = 32;
    pub const NO_PACKET_IN: u32 = 64;
    pub const ALL: u32 = DOWN | NO_RECV | NO_FWD | NO_PACKET_IN;
}

/// Numbers of queues (Section 7.2.2).
pub mod queue {
    pub const ALL: u32 = 0xffff_ffff;
}

/// Numbers of groups (Section 7.3.4.3).
pub mod group {
    pub const MAX: u32 = 0xffff_ff00;
    pub const ALL: u32 = 0xffff_fffc;
}

/// Bundles (ONF extension 230): the experimenter, types of messages, of requests, and flags.
pub mod bundle {
    pub const ONF: u32 = 0x4f4e_4600;
    pub const CONTROL: u32 = 2300;
    pub const ADD: u32 = 2301;
    pub const OPEN: u16 = 0;
    pub const CLOSE: u16 = 2;
    pub const COMMIT: u16 = 4;
    pub const DISCARD: u16 = 6;
    /// Atomic, and ordered: every bundle is both.
    pub const FLAGS: u16 = 3;
}

/// Meters (Section 7.3.4.4): numbers, flags and types of bands.
pub mod meter {
    pub const MAX: u32 = 0xffff_0000;
    pub const ALL: u32 = 0xffff_ffff;
    pub const KBPS: u16 = 1;
    pub const PKTPS: u16 = 2;
    pub const BURST: u16 = 4;
    pub const FLAGS: u16 = 15;
    pub const DROP: u16 = 1;
    pub const DSCP_REMARK: u16 = 2;
}

/// Actions (Section 7.2.4).
pub mod action {
    pub const OUTPUT: u16 = 0;
    pub const COPY_TTL_OUT: u16 = 11;
    pub const COPY_TTL_IN: u16 = 12;
    pub const SET_MPLS_TTL: u16 = 15;
    pub const DEC_MPLS_TTL: u16 = 16;
    pub const PUSH_VLAN: u16 = 17;
    pub const POP_VLAN: u16 = 18;
    pub const PUSH_MPLS: u16 = 19;
    pub const POP_MPLS: u16 = 20;
    pub const GROUP: u16 = 22;
    pub const SET_NW_TTL: u16 = 23;
    pub const DEC_NW_TTL: u16 = 24;
    pub const SET_FIELD: u16 = 25;
    pub const EXPERIMENTER: u16 = 0xffff;
}

/// Instructions (Section 7.2.3).
pub mod instruction {
    pub const GOTO_TABLE: u16 = 1;
    pub const WRITE_METADATA: u16 = 2;
    pub const WRITE_ACTIONS: u16 = 3;
    pub const APPLY_ACTIONS: u16 = 4;
    pub const CLEAR_ACTIONS: u16 = 5;
    pub const METER: u16 = 6;
    pub const EXPERIMENTER: u16 = 0xffff;
}

/// Multipart messages (Section 7.3.5).
pub mod multipart {
    pub const DESC: u16 = 0;
    pub const FLOW: u16 = 1;
    pub const AGGREGATE: u16 = 2;
    pub const TABLE: u16 = 3;
    pub const PORT_STATS: u16 = 4;
    pub const QUEUE: u16 = 5;
    pub const GROUP: u16 = 6;
    pub const GROUP_DESC: u16 = 7;
    pub const GROUP_FEATURES: u16 = 8;
    pub const METER: u16 = 9;
    pub const METER_CONFIG: u16 = 10;
    pub const METER_FEATURES: u16 = 11;
    pub const TABLE_FEATURES: u16 = 12;
    pub const PORT_DESC: u16 = 13;
    pub const EXPERIMENTER: u16 = 0xffff;
    /// More messages follow.
    pub const MORE: u16 = 1;
}

/// Flags of FLOW_MOD (Section 7.3.4.1).
pub mod flag {
    pub const SEND_FLOW_REM: u16 = 1;
    pub const CHECK_OVERLAP: u16 = 2;
    pub const RESET_COUNTS: u16 = 4;
    pub const NO_PKT_COUNTS: u16 = 8;
    pub const NO_BYT_COUNTS: u16 = 16;
    pub const KNOWN: u16 = 31;
}
