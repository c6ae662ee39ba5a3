//! Errors in requests, as OpenFlow reports them: a type and a code. Those of type 0xffff are of ONF's extensions.

macro_rules! errors {
    ($($variant:ident = $kind:literal / $code:literal, $text:literal;)*) => {
        /// An error of OpenFlow 1.3 (Section 7.4.4).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
        #[allow(missing_docs)] // The messages say what they are.
        pub enum Error {
            $(#[error($text)] $variant,)*
        }

        impl Error {
            /// Returns type and code, as on the wire.
            pub const fn numbers(self) -> (u16, u16) {
                match self {
                    $(Error::$variant => ($kind, $code),)*
                }
            }
        }
    };
}

errors! {
    HelloIncompatible = 0 / 0, "no common version: this switch speaks OpenFlow 1.3 (0x04)";
    BadVersion = 1 / 0, "the message is of another version than the one that was negotiated";
    BadType = 1 / 1, "messages of this type are not taken";
    BadMultipart = 1 / 2, "multipart messages of this type are not taken";
    BadExperimenter = 1 / 3, "the experimenter of the message is not known";
    BadExperimenterType = 1 / 4, "messages of the experimenter of this type are not taken";
    BadLen = 1 / 6, "the message has the wrong length";
    BufferUnknown = 1 / 8, "the buffer does not exist: this switch buffers no packets";
    BadTableId = 1 / 9, "the table does not exist";
    IsSlave = 1 / 10, "the controller is a slave, which may not change anything";
    BadPort = 1 / 11, "the port is not valid here";
    BadPacket = 1 / 12, "the packet is shorter than an Ethernet header";
    MultipartOverflow = 1 / 13, "requests in several parts are not taken";
    ActionType = 2 / 0, "actions of this type are not taken";
    ActionLen = 2 / 1, "the action has the wrong length";
    ActionExperimenter = 2 / 2, "the experimenter of the action is not known";
    ActionExperimenterType = 2 / 3, "the experimenter's action is not known";
    ActionOutPort = 2 / 4, "the output port is not valid here";
    ActionArgument = 2 / 5, "the action's argument is not valid here";
    ActionTooMany = 2 / 7, "there are too many actions";
    ActionGroup = 2 / 9, "the group does not exist, or can't be used here";
    ActionInconsistent = 2 / 10, "the action can't be done on what the flow matches";
    ActionSetType = 2 / 13, "the field can't be set";
    ActionSetLen = 2 / 14, "the field to set has the wrong length";
    ActionSetArgument = 2 / 15, "the field can't be set to this value";
    InstructionUnknown = 3 / 0, "the instruction is not known";
    InstructionUnsupported = 3 / 1, "the instruction is not taken here";
    InstructionTable = 3 / 2, "packets can't go to this table";
    InstructionMetadata = 3 / 3, "the metadata is no network function instance: 0 to 65535";
    InstructionMetadataMask = 3 / 4, "metadata is written as a whole";
    InstructionExperimenter = 3 / 5, "the experimenter of the instruction is not known";
    InstructionLen = 3 / 7, "the instruction has the wrong length";
    MatchType = 4 / 0, "the match is not of type OXM";
    MatchLen = 4 / 1, "the match or one of its fields has the wrong length";
    MatchWildcards = 4 / 5, "these fields can't be matched together, or a value has bits outside its mask";
    MatchField = 4 / 6, "the field is not known";
    MatchValue = 4 / 7, "the field can't have this value";
    MatchMask = 4 / 8, "the field can't be masked";
    MatchPrerequisite = 4 / 9, "the field's prerequisite is not matched before it";
    MatchDuplicate = 4 / 10, "the field is matched twice";
    FlowTableFull = 5 / 1, "the flow table is full";
    FlowTableId = 5 / 2, "the table does not exist, or can't be meant here";
    FlowOverlap = 5 / 3, "the flow overlaps another one of the same priority";
    FlowNotAllowed = 5 / 4, "flows of this table can't be changed on this way";
    FlowCommand = 5 / 6, "the command is not known";
    FlowFlags = 5 / 7, "the flags are not known";
    GroupExists = 6 / 0, "the group exists already";
    GroupInvalid = 6 / 1, "the group's number is not valid, or its buckets do not fit its type";
    GroupsFull = 6 / 3, "there is no room for more groups";
    GroupBuckets = 6 / 4, "the group has too many buckets";
    GroupChaining = 6 / 5, "groups can't send packets to groups";
    GroupWatchUnsupported = 6 / 6, "only select and fast-failover groups watch anything, and only ports";
    GroupUnknown = 6 / 8, "the group does not exist";
    GroupType = 6 / 10, "groups of this type are not taken";
    GroupCommand = 6 / 11, "the command is not known";
    GroupBucket = 6 / 12, "a bucket has the wrong length";
    GroupWatch = 6 / 13, "the port to watch does not exist";
    PortModPort = 7 / 0, "the port does not exist";
    PortModAddress = 7 / 1, "the port has another MAC address";
    PortModConfig = 7 / 2, "this can't be configured: only PORT_DOWN, NO_RECV, NO_FWD and NO_PACKET_IN can";
    PortModAdvertised = 7 / 3, "what a port advertises can't be configured";
    PortModNotAllowed = 7 / 4, "the port is in no bridge with `openflow`";
    TableModTable = 8 / 0, "the table does not exist";
    QueuePort = 9 / 0, "the port does not exist";
    QueueUnknown = 9 / 1, "the queue does not exist: ports have none";
    ConfigFlags = 10 / 0, "fragments are always handled as other packets";
    RoleStale = 11 / 0, "the generation is older than one seen before";
    RoleBad = 11 / 2, "the role does not exist";
    MeterExists = 12 / 1, "the meter exists already";
    MeterInvalid = 12 / 2, "meters have the numbers 1 to 0xffff0000";
    MeterUnknown = 12 / 3, "the meter does not exist";
    MeterCommand = 12 / 4, "the command is not known";
    MeterFlags = 12 / 5, "the flags are not known, or contradict each other";
    MeterRate = 12 / 6, "the rate of a band is zero";
    MeterBand = 12 / 8, "bands of this type are not taken";
    MetersFull = 12 / 10, "there is no room for more meters";
    MeterBands = 12 / 11, "the meter has too many bands";
    TableFeaturesNotAllowed = 13 / 5, "the tables' features can't be changed";
    BundleUnknown = 0xffff / 2302, "the bundle does not exist";
    BundleExists = 0xffff / 2303, "the bundle exists already; now it is discarded";
    BundleClosed = 0xffff / 2304, "the bundle is closed";
    BundlesFull = 0xffff / 2305, "there is no room for more bundles";
    BundleType = 0xffff / 2306, "the request is not known";
    BundleFlags = 0xffff / 2307, "the flags are not known, or others than those of the bundle";
    BundleLen = 0xffff / 2308, "the message has the wrong length";
    BundleXid = 0xffff / 2309, "the message has another identifier than the one around it";
    BundleUnsupported = 0xffff / 2310, "messages of this type can't be in a bundle";
    BundleTooMany = 0xffff / 2312, "there is no room for more messages";
    BundleFailed = 0xffff / 2313, "a message of the bundle failed: nothing has changed";
}
