// Time: the processor's cycle counter, as in the stamps of all applications.
#pragma once

#include <rte_cycles.h>
#include <time.h>

static inline uint64_t clock_now(void)
{
    return rte_rdtsc();
}

// A moment on two clocks.
struct moment {
    uint64_t cycles;
    double seconds;
};

// Reads both clocks several times, and returns the reading that took least: in others the thread may not have run.
static inline struct moment moment_now(void)
{
    struct moment moment = {0};
    for (uint64_t least = UINT64_MAX, tries = 0; tries < 20; tries++) {
        struct timespec time;
        uint64_t before = clock_now();
        clock_gettime(CLOCK_MONOTONIC, &time);
        uint64_t took = clock_now() - before;
        if (took < least) {
            least = took;
            moment = (struct moment){before + took / 2, (double)time.tv_sec + (double)time.tv_nsec * 1e-9};
        }
    }
    return moment;
}

// Measures the counter's frequency in Hz. DPDK's own figure is rounded to 10 MHz.
static inline double clock_hz(void)
{
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    struct moment begin = moment_now();
    nanosleep(&pause, NULL);
    struct moment end = moment_now();
    return (double)(end.cycles - begin.cycles) / (end.seconds - begin.seconds);
}
