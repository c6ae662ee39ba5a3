#include "payload.h"

#include "options.h"

#include <string.h>

// Bytes that payloads begin in, and the distance of two beginnings.
#define NOISE 8192
#define STEP 64

static uint8_t noise[NOISE + LONGEST];
static uint16_t sum_before[NOISE + LONGEST + 1];

void payload_start(void)
{
    uint64_t state = 1;
    for (unsigned at = 0; at < sizeof noise; at++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        noise[at] = (uint8_t)(state >> 56);
        sum_before[at + 1] = (uint16_t)(sum_before[at] + noise[at]);
    }
}

uint16_t payload_fill(uint8_t *bytes, uint16_t length, uint64_t number)
{
    unsigned at = (unsigned)(number % (NOISE / STEP)) * STEP;
    memcpy(bytes, noise + at, length);
    return (uint16_t)(sum_before[at + length] - sum_before[at]);
}

uint16_t payload_sum(const uint8_t *bytes, uint16_t length)
{
    uint16_t sum = 0;
    for (unsigned at = 0; at < length; at++)
        sum = (uint16_t)(sum + bytes[at]);
    return sum;
}
