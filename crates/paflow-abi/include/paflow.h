// Packet aggregation for programs in C. The bytes are specified in docs/aggregation-format.md, the configuration in
// docs/configuration.md.
//
// The library has no I/O but to read the configuration, no clock, no threads, and no memory of packets: the caller owns all
// buffers. Nothing waits in it: it joins the packets that the caller has at one time. It never unwinds into the caller; a fault of its
// own aborts the program.
#pragma once

#include <stddef.h>
#include <stdint.h>

// The most packets that are found in an aggregate.
#define PAFLOW_MOST 256

// The most packets that are planned at a time.
#define PAFLOW_BURST 256

// The longest frame that can hold an aggregate: of an MTU of 9000, with an Ethernet header and a tag.
#define PAFLOW_LONGEST 9018

// The rules of a port. They never change, so that any number of threads may use them.
struct paflow_rules;

// The memory in which one thread plans.
struct paflow_join;

// Loads the section [aggregation] of `file` for the port with this name. Returns NULL if that fails, and writes the reason to
// `error`, which has room for `size` bytes.
struct paflow_rules *paflow_rules_load(const char *file, const char *port, char *error, size_t size);

// Frees the rules, which nobody may use any more.
void paflow_rules_free(struct paflow_rules *rules);

// Returns the longest payload of an Ethernet frame with an aggregate.
uint16_t paflow_rules_mtu(const struct paflow_rules *rules);

// Returns the number of next hops that packets are joined for at this port.
size_t paflow_rules_next_hops(const struct paflow_rules *rules);

// The place of a packet in a frame.
struct paflow_piece {
    uint32_t start;
    uint16_t length;
};

// Finds the packets of the aggregate in a frame. Returns their number; 0 if the frame is no aggregate for this port and is to be
// treated like any other; or minus the number of the reason to drop it. `pieces` has PAFLOW_MOST elements, initialized once.
// All pieces lie within the frame, also if its bytes change at the same time. `congested` becomes 1 if a router has marked the
// aggregate, so that each packet is to be marked (paflow_mark); otherwise 0.
int paflow_split(const struct paflow_rules *rules, const uint8_t *frame, size_t length, struct paflow_piece *pieces,
                 uint8_t *congested);

// Marks a packet of a frame that a router has marked, as having experienced congestion. Returns 0; or -1 if it is to be dropped, as its
// sender would not understand the mark (RFC 6040, section 4.2).
int paflow_mark(uint8_t *packet, size_t length);

// The number of reasons to drop a frame.
#define PAFLOW_REASONS 13

// Returns the name of a reason to drop a frame, by its number from 1 to PAFLOW_REASONS; NULL if there is none of this number.
const char *paflow_reason(int number);

// A packet to be sent. If the first `there` bytes, those at `bytes`, are not all, it is not joined.
struct paflow_packet {
    const uint8_t *bytes;
    uint32_t there;
    uint32_t length;
};

enum paflow_kind {
    // One packet, to be sent as it is.
    PAFLOW_ALONE,
    // Packets to be joined in one frame.
    PAFLOW_JOINED,
    // One packet, to be dropped: its service chain has no flow.
    PAFLOW_UNKNOWN_CHAIN,
    // One packet, to be dropped: it fits no frame to its next hop, which is behind routers.
    PAFLOW_TOO_LONG,
};

// Packets of a burst that leave together: `count` of them, from the element `first` of the order on.
struct paflow_group {
    uint32_t kind;
    // Length of the whole frame, if they are joined.
    uint32_t length;
    uint16_t first;
    uint16_t count;
    uint16_t next_hop;
    // 1 if the packets must not leave one by one if they can't be joined: the next hop is behind routers.
    uint16_t only_joined;
};

// Creates memory for planning.
struct paflow_join *paflow_join_new(void);

// Frees it.
void paflow_join_free(struct paflow_join *join);

// Groups up to PAFLOW_BURST packets by next hop. Writes the groups, in the order in which they must leave, and the numbers of all
// packets, group by group; both have room for `count`. Returns the number of groups; 0 if there are too many packets.
uint16_t paflow_plan(struct paflow_join *join, const struct paflow_rules *rules, const struct paflow_packet *packets,
                     uint16_t count, uint16_t *order, struct paflow_group *groups);

// Writes the frame of a group of joined packets to `out`, which has `room` bytes. `packets` and `order` have `count` elements.
// Returns the length of the frame; 0 if it does not fit.
size_t paflow_write(const struct paflow_rules *rules, const struct paflow_group *group, const struct paflow_packet *packets,
                    const uint16_t *order, uint16_t count, uint8_t *out, size_t room);
