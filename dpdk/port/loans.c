// Buffers come to a queue and leave it.

#include <stdlib.h>

#include "receive.h"

static int stash_open(struct stash *stash, uint32_t capacity)
{
    *stash = (struct stash){.mask = capacity - 1, .all = calloc(capacity, sizeof *stash->all)};
    return stash->all == NULL ? -ENOMEM : 0;
}

// `capacity` is a power of two.
int lent_open(struct lent *lent, uint32_t capacity)
{
    int failed = stash_open(&lent->waiting, capacity);
    return failed ? failed : stash_open(&lent->withdrawn, capacity);
}

void lent_close(struct lent *lent)
{
    free(lent->waiting.all);
    free(lent->withdrawn.all);
}

// A device that registers memory finds that of a buffer by the beginning of the headroom.
static bool has_headroom(struct mr_receive *receive, const struct mr_loan *loan)
{
    uint64_t iova;
    return receive->registers && !receive->writes_headroom && loan->start >= HEADER &&
           regions_translate(&receive->regions, loan->addr + loan->start - RTE_PKTMBUF_HEADROOM, RTE_PKTMBUF_HEADROOM, &iova);
}

// Makes a buffer of a loan. Returns false if bytes that the device may write don't lie in one region.
static inline bool is_fit(struct mr_receive *receive, uint32_t kind, const struct mr_loan *loan, struct buffer *buffer)
{
    uint32_t needed = kind == MR_OWN ? receive->room : receive->least;
    if (unlikely(loan->start < receive->start) && !has_headroom(receive, loan))
        return false;
    if (loan->start > UINT16_MAX || loan->len < loan->start || loan->len - loan->start < needed)
        return false;
    *buffer = (struct buffer){.addr = loan->addr, .len = loan->len, .id = loan->id, .start = (uint16_t)loan->start, .kind = (uint8_t)kind};
    uint64_t reach = RTE_MAX((uint64_t)loan->len, (uint64_t)loan->start + receive->room);
    return regions_translate(&receive->regions, loan->addr, reach, &buffer->iova);
}

uint32_t receive_lend(struct mr_receive *receive, uint32_t kind, const struct mr_loan *loans, uint32_t count)
{
    struct lent *lent = lent_of(receive, kind);
    uint32_t done = 0, room = receive->capacity - lent->out;
    // In their places: a copy would wait until the parts of a buffer are stored.
    while (done < RTE_MIN(count, room) && is_fit(receive, kind, &loans[done], stash_place(&lent->waiting, done)))
        done++;
    add32(&lent->waiting.count, done);
    add32(&lent->out, done);
    return done;
}

bool receive_takes(struct mr_receive *receive, uint32_t kind, const struct mr_loan *loan)
{
    struct buffer buffer;
    return is_fit(receive, kind, loan, &buffer);
}

uint32_t receive_reclaim(struct mr_receive *receive, uint32_t kind, uint32_t *ids, uint32_t room)
{
    struct lent *lent = lent_of(receive, kind);
    struct stash *stashes[] = {&lent->withdrawn, &lent->waiting};
    uint32_t done = 0;
    for (unsigned int i = 0; i < RTE_DIM(stashes); i++)
        while (done < room && stashes[i]->count > 0)
            ids[done++] = stash_first(stashes[i]).id;
    add32(&lent->out, -done);
    return done;
}

static uint32_t load(const uint32_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

struct mr_out receive_out(const struct mr_receive *receive)
{
    const struct lent *guest = &receive->guest, *own = &receive->own;
    return (struct mr_out){
        .guest = load(&guest->out),
        .own = load(&own->out),
        .guest_waiting = load(&guest->waiting.count) + load(&guest->withdrawn.count),
        .own_waiting = load(&own->waiting.count) + load(&own->withdrawn.count),
    };
}

int receive_region(struct mr_receive *receive, const struct mr_region *region, char *error)
{
    return regions_add(&receive->regions, region, !receive->registers || receive->pool.mempool == NULL, error);
}

// Takes out the waiting buffers of a region.
static void withdraw(struct lent *lent, const struct mr_region *region)
{
    for (uint32_t i = lent->waiting.count; i > 0; i--) {
        struct buffer buffer = stash_first(&lent->waiting);
        stash_put(region_has(region, buffer.addr) ? &lent->withdrawn : &lent->waiting, &buffer);
    }
}

void receive_forget(struct mr_receive *receive, const struct mr_region *region)
{
    regions_remove(&receive->regions, region);
    withdraw(&receive->guest, region);
    withdraw(&receive->own, region);
}

uint32_t receive_within(struct mr_receive *receive, const struct mr_region *region)
{
    return pool_within(&receive->pool, region);
}
