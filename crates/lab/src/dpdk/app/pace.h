// Due times of bursts, in cycles since the start. All kinds of arrivals have the same mean.
#pragma once

#include "options.h"

struct pace {
    enum arrivals arrivals;
    double interval;  // Mean cycles between bursts; for on-off, between those of one row.
    double on, off;
    double passed;    // Sum of the intervals so far.
    double due;       // When the next burst is due.
    uint64_t random;
};

// Creates the pace of a flow, which begins at 0; `hz` is the counter's frequency.
struct pace pace_of(const struct options *options, double hz, uint8_t flow);

// Continues with the next burst.
void pace_next(struct pace *pace);
