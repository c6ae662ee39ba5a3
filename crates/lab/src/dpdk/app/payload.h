// Payloads: noise from an offset that follows from the packet's number, and its sum.
#pragma once

#include <stdint.h>

// Makes the noise.
void payload_start(void);

// Writes the bytes behind the stamp of packet `number`; returns their sum.
uint16_t payload_fill(uint8_t *bytes, uint16_t length, uint64_t number);

// Returns the sum of these bytes, modulo 2^16.
uint16_t payload_sum(const uint8_t *bytes, uint16_t length);
