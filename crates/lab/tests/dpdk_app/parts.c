// Checks the parts of the DPDK application that need no port.

#include "histogram.h"
#include "pace.h"
#include "payload.h"
#include "sequence.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static struct sequence *empty(void)
{
    static struct sequence sequence;
    memset(&sequence, 0, sizeof sequence);
    return &sequence;
}

static void duplicates_and_late_packets_are_told_apart(void)
{
    struct sequence *sequence = empty();
    CHECK(sequence_note(sequence, 0) == IN_ORDER && sequence_note(sequence, 2) == IN_ORDER);
    CHECK(sequence_note(sequence, 1) == REORDERED && sequence_note(sequence, 1) == DUPLICATE);
    CHECK(sequence_note(sequence, 2) == DUPLICATE && sequence->next == 3);
}

static void gaps_of_any_length_forget_what_stood_there_before(void)
{
    for (uint64_t gap = 1; gap < 3 * REMEMBERED; gap += gap < 200 ? 1 : 997) {
        struct sequence *sequence = empty();
        uint64_t number = 0;
        for (; number < REMEMBERED + 77; number++)
            CHECK(sequence_note(sequence, number) == IN_ORDER);
        CHECK(sequence_note(sequence, number + gap) == IN_ORDER);
        uint64_t first = gap > REMEMBERED - 100 ? number + gap - (REMEMBERED - 100) : number;
        for (uint64_t late = first; late < number + gap; late++)
            CHECK(sequence_note(sequence, late) == REORDERED && sequence_note(sequence, late) == DUPLICATE);
        CHECK(sequence_note(sequence, number + gap) == DUPLICATE);
    }
}

static void quantiles_are_right_to_one_percent(void)
{
    static struct histogram histogram;
    for (uint64_t time = 1; time <= 1000000; time++)
        histogram_note(&histogram, time);
    const double shares[] = {0.000001, 0.001, 0.5, 0.9, 0.99, 0.9999, 1};
    for (unsigned at = 0; at < sizeof shares / sizeof *shares; at++) {
        double expected = shares[at] * 1e6;
        CHECK(fabs(histogram_quantile(&histogram, shares[at]) - expected) <= expected * 0.01);
    }
    CHECK(histogram.min == 1 && histogram.max == 1000000 && histogram.sum == 500000500000);
    histogram_note(&histogram, UINT64_MAX);
    CHECK(histogram_quantile(&histogram, 1) >= 0x1p39);
}

// Returns how many bursts are due within this time, and checks that time does not go back.
static unsigned bursts_within(struct pace pace, double cycles)
{
    unsigned bursts = 0;
    for (double last = 0; pace.due < cycles; bursts++) {
        CHECK(pace.due >= last);
        last = pace.due;
        pace_next(&pace);
    }
    return bursts;
}

static void all_arrivals_have_the_same_mean(void)
{
    struct options options = {.rate = 1e6, .burst = 10, .on = 0.003, .off = 0.007};
    for (options.arrivals = CONSTANT; options.arrivals <= ON_OFF; options.arrivals++) {
        unsigned bursts = bursts_within(pace_of(&options, 1e9, 0), 1e10);
        CHECK(abs((int)bursts - 1000000) < (options.arrivals == POISSON ? 5000 : 2));
    }
    options.arrivals = ON_OFF;
    // Two periods: all bursts come in the first 3 of 10 milliseconds.
    CHECK(bursts_within(pace_of(&options, 1e9, 0), 3e6) == 1000);
    CHECK(bursts_within(pace_of(&options, 1e9, 0), 9.9e6) == 1000);
    CHECK(bursts_within(pace_of(&options, 1e9, 0), 13e6) == 2000);
}

static void every_changed_byte_of_a_payload_is_seen(void)
{
    uint8_t bytes[LONGEST];
    payload_start();
    for (uint64_t number = 0; number < 300; number++)
        CHECK(payload_fill(bytes, 1454, number) == payload_sum(bytes, 1454));
    uint16_t sum = payload_fill(bytes, 100, 7);
    for (unsigned at = 0; at < 100; at++) {
        bytes[at] ^= 0x10;
        CHECK(payload_sum(bytes, 100) != sum);
        bytes[at] ^= 0x10;
    }
    CHECK(payload_sum(bytes, 100) == sum && payload_fill(bytes, 0, 7) == 0);
}

int main(void)
{
    duplicates_and_late_packets_are_told_apart();
    gaps_of_any_length_forget_what_stood_there_before();
    quantiles_are_right_to_one_percent();
    all_arrivals_have_the_same_mean();
    every_changed_byte_of_a_payload_is_seen();
    return 0;
}
