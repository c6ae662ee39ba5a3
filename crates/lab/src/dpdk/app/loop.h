// The loop's view of time: the phase, pauses in which its thread did not run, and idle rounds.
#pragma once

#include "clock.h"
#include "options.h"
#include "stamp.h"

// Sums of cycles, at one moment.
struct tally {
    uint64_t now, idle, stalled;
};

struct loop {
    const struct options *options;
    double hz;
    uint64_t stall;       // Cycles between two looks at the clock beyond which the thread was not running.
    struct tally tally;
    struct tally measured[2]; // Begin and end of the measured seconds.
    enum phase phase;
};

static inline struct loop loop_start(const struct options *options)
{
    double hz = clock_hz();
    return (struct loop){.options = options, .hz = hz, .stall = (uint64_t)(50e-6 * hz), .tally.now = clock_now()};
}

// Reads the clock.
static inline void loop_tick(struct loop *loop)
{
    uint64_t now = clock_now(), passed = now - loop->tally.now;
    if (passed > loop->stall)
        loop->tally.stalled += passed;
    loop->tally.now = now;
}

// Returns the cycles in which the thread ran: packets due in a pause are due later, and not all at once.
static inline uint64_t loop_running(const struct loop *loop)
{
    return loop->tally.now - loop->tally.stalled;
}

// Notes a round that began at `begin`.
static inline void loop_note_round(struct loop *loop, struct tally begin, bool moved)
{
    if (!moved)
        loop->tally.idle += loop_running(loop) - (begin.now - begin.stalled);
}

// Continues with a later phase.
static inline void loop_enter(struct loop *loop, enum phase phase)
{
    if (phase <= loop->phase)
        return;
    if (phase == MEASURED)
        loop->measured[0] = loop->tally;
    else if (loop->phase == MEASURED)
        loop->measured[1] = loop->tally;
    loop->phase = phase;
}
