// A receive queue: buffers that are lent to it, and mbufs that carry them to the device and back.
#pragma once

#include "internal.h"

// Buffers in the order in which they came.
struct stash {
    uint32_t first, count, mask;
    struct buffer *all;
};

// Buffers of one kind.
struct lent {
    // The device may have these.
    struct stash waiting;
    // Their region is forgotten.
    struct stash withdrawn;
    // These, and what the device has.
    uint32_t out;
};

struct mr_receive {
    uint16_t port, queue, ring;
    // Least start of a loan: what the driver writes before a frame.
    uint16_t start;
    // Bytes that the device was told that a buffer has; those that a guest's buffer needs, from its start.
    uint32_t room, least;
    uint32_t capacity;
    // The device registers memory; it writes to the headroom of some buffers.
    bool registers, writes_headroom;
    bool announces;
    struct pool pool;
    struct lent guest, own;
    // Frames that were taken from the device, of which those before `next` were passed on.
    uint16_t held, next;
    struct rte_mbuf *frames[BURST];
    struct mr_counts counts;
    struct regions regions;
};

// Returns the place of the buffer that comes after the last one and `more`.
static inline struct buffer *stash_place(struct stash *stash, uint32_t more)
{
    return &stash->all[(stash->first + stash->count + more) & stash->mask];
}

static inline void stash_put(struct stash *stash, const struct buffer *buffer)
{
    *stash_place(stash, 0) = *buffer;
    add32(&stash->count, 1);
}

static inline struct buffer stash_first(struct stash *stash)
{
    struct buffer buffer = stash->all[stash->first & stash->mask];
    stash->first++;
    add32(&stash->count, -1);
    return buffer;
}

// The last one's memory is the most likely to be cached.
static inline struct buffer stash_last(struct stash *stash)
{
    add32(&stash->count, -1);
    return stash->all[(stash->first + stash->count) & stash->mask];
}

static inline struct lent *lent_of(struct mr_receive *receive, uint32_t kind)
{
    return kind == MR_OWN ? &receive->own : &receive->guest;
}

// receive_queue.c
int receive_open(uint16_t port, uint16_t queue, const struct mr_config *config, struct mr_receive **receive, struct mr_sizes *sizes,
                 char *error);
int receive_setup(struct mr_receive *receive, char *error);
void receive_close(struct mr_receive *receive);
int receive_start(struct mr_receive *receive, char *error);
int receive_stop(struct mr_receive *receive, char *error);
struct mr_counts receive_counts(const struct mr_receive *receive);

// loans.c
int lent_open(struct lent *lent, uint32_t capacity);
void lent_close(struct lent *lent);
uint32_t receive_lend(struct mr_receive *receive, uint32_t kind, const struct mr_loan *loans, uint32_t count);
bool receive_takes(struct mr_receive *receive, uint32_t kind, const struct mr_loan *loan);
uint32_t receive_reclaim(struct mr_receive *receive, uint32_t kind, uint32_t *ids, uint32_t room);
struct mr_out receive_out(const struct mr_receive *receive);
int receive_region(struct mr_receive *receive, const struct mr_region *region, char *error);
void receive_forget(struct mr_receive *receive, const struct mr_region *region);
uint32_t receive_within(struct mr_receive *receive, const struct mr_region *region);

// receive_pool.c
#define RECEIVE_OPS "millrace_receive"
int receive_pool_register(void);

// burst.c
uint32_t receive_burst(struct mr_receive *receive, struct mr_frame *frames, uint32_t room, uint32_t most);
void receive_flush(struct mr_receive *receive);

// events.c
int receive_events(struct mr_receive *receive, int epoll, bool on);
bool receive_arm(struct mr_receive *receive, int epoll);
void receive_disarm(struct mr_receive *receive);
