// The stamp at the start of each payload; all its numbers are little-endian, like the processor's.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define STAMP_MARK 0x4d52

enum phase { WARM_UP, MEASURED, COOL_DOWN };

struct stamp {
    uint64_t number; // In its flow, from 0.
    uint64_t time;   // Cycle counter at sending.
    uint8_t phase;
    uint8_t flow;    // The sender's number.
    uint16_t mark;
    uint16_t sum;    // Of all bytes behind the stamp.
} __attribute__((packed));

_Static_assert(sizeof(struct stamp) == 22, "a stamp fits into the shortest frame");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "stamps are written as they lie in memory");

// Copies the stamp of a payload; reports whether it is one of this flow.
static inline bool stamp_read(struct stamp *stamp, const void *payload, uint8_t flow)
{
    memcpy(stamp, payload, sizeof *stamp);
    return stamp->mark == STAMP_MARK && stamp->phase <= COOL_DOWN && stamp->flow == flow;
}
