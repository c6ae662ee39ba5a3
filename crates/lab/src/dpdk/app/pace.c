#include "pace.h"

#include <math.h>

struct pace pace_of(const struct options *options, double hz, uint8_t flow)
{
    struct pace pace = {
        .arrivals = options->arrivals, .interval = options->burst / options->rate * hz, .on = options->on * hz,
        .off = options->off * hz, .random = 0x9e3779b97f4a7c15u * (flow + 1u),
    };
    if (pace.arrivals == ON_OFF)
        pace.interval *= pace.on / (pace.on + pace.off);
    return pace;
}

// Returns a number in (0, 1] (xorshift64*).
static double uniform(struct pace *pace)
{
    pace->random ^= pace->random >> 12;
    pace->random ^= pace->random << 25;
    pace->random ^= pace->random >> 27;
    return (double)(((pace->random * 0x2545f4914f6cdd1du) >> 11) + 1) * 0x1p-53;
}

void pace_next(struct pace *pace)
{
    switch (pace->arrivals) {
    case CONSTANT:
        pace->passed += pace->interval;
        pace->due = pace->passed;
        break;
    case POISSON:
        pace->passed -= pace->interval * log(uniform(pace));
        pace->due = pace->passed;
        break;
    case ON_OFF:
        pace->passed += pace->interval;
        pace->due = pace->passed + floor(pace->passed / pace->on) * pace->off;
        break;
    }
}
