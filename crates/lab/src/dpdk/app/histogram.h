// Distribution of times: 128 buckets for each power of two; the middle of one is within 0.4 % of all its times.
#pragma once

#include <stdint.h>

#define FINE 7
// Powers of two that are distinguished: at 3 GHz, up to six minutes.
#define POWERS 40

struct histogram {
    uint64_t count, sum, min, max;
    uint64_t buckets[(POWERS - FINE + 1) << FINE];
};

static inline void histogram_note(struct histogram *histogram, uint64_t time)
{
    const uint64_t longest = (1ull << POWERS) - 1;
    if (time > longest)
        time = longest;
    // The highest FINE + 1 bits are the place among the buckets of a power of two.
    int shift = 63 - FINE - __builtin_clzll(time | 1 << FINE);
    histogram->buckets[((uint64_t)shift << FINE) + (time >> shift)]++;
    if (histogram->count == 0 || time < histogram->min)
        histogram->min = time;
    if (time > histogram->max)
        histogram->max = time;
    histogram->count++;
    histogram->sum += time;
}

// Returns the time that this share of all times does not exceed.
double histogram_quantile(const struct histogram *histogram, double share);
