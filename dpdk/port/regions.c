// Memory that a queue's device may reach.

#include "internal.h"

int regions_add(struct regions *regions, const struct mr_region *region, bool is_known, char *error)
{
    if (regions->count == REGIONS)
        return fail(error, -ENOSPC, "a queue knows at most %d regions of memory", REGIONS);
    regions->all[regions->count++] = *region;
    if (is_known)
        regions->known = regions->count;
    return 0;
}

void regions_remove(struct regions *regions, const struct mr_region *region)
{
    for (uint32_t i = 0; i < regions->count; i++)
        if (regions->all[i].addr == region->addr) {
            // Those that are known stay in front.
            if (i < regions->known) {
                regions->all[i] = regions->all[--regions->known];
                i = regions->known;
            }
            regions->all[i] = regions->all[--regions->count];
            return;
        }
}

bool regions_find(struct regions *regions, uint64_t addr)
{
    for (uint32_t i = 0; i < regions->known; i++)
        if (region_has(&regions->all[i], addr)) {
            regions->last = i;
            return true;
        }
    return false;
}
