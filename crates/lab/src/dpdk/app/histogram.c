#include "histogram.h"

#include <math.h>

// Returns the middle of a bucket.
static double middle(unsigned bucket)
{
    unsigned shift = bucket >> FINE;
    shift = shift > 0 ? shift - 1 : 0;
    uint64_t first = (bucket - ((uint64_t)shift << FINE)) << shift;
    return (double)first + (double)((1ull << shift) - 1) / 2;
}

double histogram_quantile(const struct histogram *histogram, double share)
{
    double rank = ceil(share * (double)histogram->count), seen = 0;
    for (unsigned bucket = 0; bucket < sizeof histogram->buckets / sizeof *histogram->buckets; bucket++) {
        seen += (double)histogram->buckets[bucket];
        if (seen >= rank && seen > 0)
            return fmax((double)histogram->min, fmin((double)histogram->max, middle(bucket)));
    }
    return (double)histogram->max;
}
