// Numbers of received packets, which show duplicates and changes of order.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Numbers behind the greatest one that are remembered: more than any switch can hold back.
#define REMEMBERED 65536

struct sequence {
    uint64_t next; // The greatest number so far, plus one.
    uint64_t seen[REMEMBERED / 64];
};

enum order { IN_ORDER, REORDERED, DUPLICATE };

static inline uint64_t *sequence_word(struct sequence *sequence, uint64_t number)
{
    return &sequence->seen[number % REMEMBERED / 64];
}

// Notes a number that is not the expected one.
enum order sequence_note_odd(struct sequence *sequence, uint64_t number);

// Notes a number.
static inline enum order sequence_note(struct sequence *sequence, uint64_t number)
{
    if (number != sequence->next)
        return sequence_note_odd(sequence, number);
    uint64_t *word = sequence_word(sequence, number), bit = 1ull << number % 64;
    // Forget what stood there one round of the memory ago, a word at a time.
    *word = bit == 1 ? bit : *word | bit;
    sequence->next++;
    return IN_ORDER;
}
