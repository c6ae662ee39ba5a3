#include "sequence.h"

#include <string.h>

enum order sequence_note_odd(struct sequence *sequence, uint64_t number)
{
    uint64_t bit = 1ull << number % 64;
    if (number >= sequence->next) {
        if (number - sequence->next >= REMEMBERED)
            memset(sequence->seen, 0, sizeof sequence->seen);
        else
            // Words that numbers from now on are noted in, but for the one in use.
            for (uint64_t start = (sequence->next + 63) & ~63ull; start <= number; start += 64)
                *sequence_word(sequence, start) = 0;
        *sequence_word(sequence, number) |= bit;
        sequence->next = number + 1;
        return IN_ORDER;
    }
    // The oldest word may hold newer numbers already. Numbers older than the memory count as late.
    if (sequence->next - number > REMEMBERED - 64)
        return REORDERED;
    uint64_t *word = sequence_word(sequence, number);
    if (*word & bit)
        return DUPLICATE;
    *word |= bit;
    return REORDERED;
}
