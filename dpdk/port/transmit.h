// A transmit queue: mbufs whose memory is the frame's own. That the device frees one is how it says that it has sent it.
#pragma once

#include "internal.h"

struct mr_transmit {
    uint16_t port, queue, ring;
    // The shortest and longest frame, and the most pieces of one.
    uint32_t shortest, longest, pieces;
    // The most pieces of a frame that is to be cut.
    uint32_t message;
    // The flag for the checksum of IPv4 headers of segments, if the device has it.
    uint64_t header;
    // The device registers memory.
    bool registers;
    struct pool pool;
    // Records that were taken and whose ids have not been fetched. Fewer than mbufs, so that `done` has room.
    uint32_t out;
    // Ids of finished records.
    uint32_t first, done, mask;
    uint32_t *ids;
    // Mbufs that other threads have freed, each by its `next`.
    struct rte_mbuf *returned;
    struct mr_counts counts;
    struct regions regions;
};

// transmit_queue.c
int transmit_open(uint16_t port, uint16_t queue, const struct mr_config *config, struct mr_transmit **transmit, struct mr_sizes *sizes,
                  char *error);
int transmit_setup(struct mr_transmit *transmit, char *error);
void transmit_close(struct mr_transmit *transmit);
int transmit_region(struct mr_transmit *transmit, const struct mr_region *region, char *error);
void transmit_forget(struct mr_transmit *transmit, const struct mr_region *region);
uint32_t transmit_within(struct mr_transmit *transmit, const struct mr_region *region);
uint32_t transmit_out(const struct mr_transmit *transmit);
struct mr_counts transmit_counts(const struct mr_transmit *transmit);

// transmit_pool.c
#define TRANSMIT_OPS "millrace_transmit"
int transmit_pool_register(void);
void transmit_finish(struct mr_transmit *transmit, uint32_t id);
void transmit_drain(struct mr_transmit *transmit);
// Frees an mbuf of another thread's queue, if it is one. A driver that joins devices by a ring passes on what it was given.
bool transmit_return(struct rte_mbuf *mbuf);

// send.c
uint32_t transmit_send(struct mr_transmit *transmit, const struct mr_frame *frames, uint32_t count);
uint32_t transmit_send_work(struct mr_transmit *transmit, const struct mr_frame *frames, uint32_t count, const struct mr_work *work);
uint32_t transmit_done(struct mr_transmit *transmit, uint32_t *ids, uint32_t room);
bool transmit_clean(struct mr_transmit *transmit);
