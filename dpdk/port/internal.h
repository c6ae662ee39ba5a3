// What the files of the plugin have in common.
#pragma once

#include <stdint.h>

#include <rte_branch_prediction.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "port.h"

// Frames that a device is asked for at a time: some drivers return nothing to a caller that takes fewer.
#define BURST 32
// Regions of a device.
#define REGIONS 64
// Drivers of virtio put a header of so many bytes before a frame.
#define HEADER 12

// said.c: writes what failed to `error`, with what DPDK has said since `said_forget`; returns `failed`.
void said_open(void);
void said_forget(void);
int fail(char *error, int failed, const char *format, ...) __attribute__((format(printf, 3, 4)));
// The name of a port, for sentences.
const char *port_name(uint16_t port);

// eal.c
int eal_start(int argc, char **argv, char *error);
bool eal_is_virtual(void);

// drivers.c
struct driver {
    const char *name;
    // Why it can't receive into buffers of others.
    const char *refusal;
    // It writes no more than a buffer has. Others may write as much as they were told that each has.
    bool obeys_length;
    // Its NIC drops frames that are longer than the MTU allows, with so many VLAN tags, so that it writes no more than that. 0: unknown.
    uint8_t tags;
    // It writes to the headroom of the buffers after a frame's first, at any MTU.
    bool writes_headroom;
    // It asks for as many buffers at once as its ring has, or its ring has twice as many.
    bool takes_many;
    // It keeps a ring full that it receives nothing into, but for long frames.
    bool keeps_ring;
    // It leaves the headroom alone when it cuts a frame to pieces.
    bool cuts;
    // Whenever its features change, it makes event descriptors anew, and forgets the last ones.
    bool forgets_events;
    // Its frames have finished checksums, though the device is virtual.
    bool finished;
    // It reaches only memory of its pools, which it registers with the NIC when they are complete.
    bool registers;
    // It cuts messages by DPDK's library librte_gso, whose segments refer to an mbuf by the place of its bytes right behind it. Ours lie
    // elsewhere, and memory would be overwritten.
    bool cuts_by_library;
    // Why it should get the switch's own buffers only.
    const char *own_only;
};
const struct driver *driver_of(const char *name);
bool driver_registers(const struct rte_eth_dev_info *info);
bool is_virtual(const struct rte_eth_dev_info *info);

// device.c
int device_probe(const char *device, uint16_t *port, char *error);
int device_remove(uint16_t port, char *error);
int device_info(uint16_t port, struct mr_info *info, char *error);
// Returns the work on frames that the device does.
uint16_t device_work(const struct rte_eth_dev_info *info);
int device_configure(uint16_t port, const struct mr_config *config, char *error);
int device_start(uint16_t port, char *error);
int device_stop(uint16_t port, char *error);
// The longest frame that the device's MTU allows, with so many VLAN tags, without its checksum.
uint32_t device_frame(uint16_t port, uint8_t tags);
#define MOST_TAGS 2

// status.c
int status_link(uint16_t port, struct mr_link *link);
int status_stats(uint16_t port, struct mr_stats *stats);
int status_promiscuous(uint16_t port, bool on, char *error);
int status_mac(uint16_t port, uint8_t mac[6]);

// steer.c
int steer(uint16_t port, const uint8_t mac[6], uint16_t queue, void **rule, char *error);
int unsteer(uint16_t port, void *rule, char *error);

// memory.c
int memory_register(const struct mr_region *region, char *error);
int memory_unregister(const struct mr_region *region);
int memory_map(uint16_t port, const struct mr_region *region, char *error);
int memory_unmap(const struct mr_region *region);

// regions.c: the memory that a queue's device may reach.
struct regions {
    // Those at the front, which the device knows already, are `known`.
    uint32_t known, count, last;
    struct mr_region all[REGIONS];
};
int regions_add(struct regions *regions, const struct mr_region *region, bool is_known, char *error);
void regions_remove(struct regions *regions, const struct mr_region *region);
bool regions_find(struct regions *regions, uint64_t addr);

static inline bool region_has(const struct mr_region *region, uint64_t addr)
{
    return addr - region->addr < region->len;
}

// Finds the device's address of bytes that lie in one region, and that follow each other for the device. Returns false if they don't.
static inline bool regions_translate(struct regions *regions, uint64_t addr, uint64_t len, uint64_t *iova)
{
    const struct mr_region *region = &regions->all[regions->last];
    if (unlikely(regions->last >= regions->known || !region_has(region, addr))) {
        if (!regions_find(regions, addr))
            return false;
        region = &regions->all[regions->last];
    }
    uint64_t offset = addr - region->addr;
    if (unlikely(len > region->len - offset))
        return false;
    if (region->iovas == NULL) {
        *iova = addr;
        return true;
    }
    uint64_t first = offset / region->page, last = (offset + len - (len > 0)) / region->page;
    *iova = region->iovas[first] + offset % region->page;
    for (; first < last; first++)
        if (region->iovas[first + 1] != region->iovas[first] + region->page)
            return false;
    return true;
}

// A buffer that is lent.
struct buffer {
    uint64_t addr, iova;
    uint32_t len, id;
    uint16_t start;
    // MR_GUEST, MR_OWN, or 0: there is none.
    uint8_t kind;
};

// pool.c: mbufs without memory for frames. Each has a `struct buffer` behind it.
struct pool {
    // NULL until the queue is set up.
    struct rte_mempool *mempool;
    // The queue.
    void *owner;
    // Mbufs that nobody has.
    uint32_t count, size;
    struct rte_mbuf **mbufs;
    // Where the mbufs stand, and the next one that is made.
    char *memory, *next;
    size_t len;
};
// Opens a pool. Drivers find `known` in it as the memory of its mbufs, if that is not NULL.
int pool_open(struct pool *pool, const char *ops, void *owner, uint32_t size, uint32_t room, const struct regions *known, char *error);
// Registers operations of pools by a name. Returns their number, or a negative errno.
int pool_register(const char *name, rte_mempool_enqueue_t put, rte_mempool_dequeue_t take, rte_mempool_get_count available);
void pool_close(struct pool *pool);
// Returns the number of buffers in the region that mbufs carry.
uint32_t pool_within(const struct pool *pool, const struct mr_region *region);

static inline struct buffer *buffer_of(struct rte_mbuf *mbuf)
{
    return rte_mbuf_to_priv(mbuf);
}

// Counters have one writer, and readers that may see them a little later.
static inline void add(uint64_t *counter, uint64_t more)
{
    __atomic_store_n(counter, *counter + more, __ATOMIC_RELAXED);
}
static inline void add32(uint32_t *counter, uint32_t more)
{
    __atomic_store_n(counter, *counter + more, __ATOMIC_RELAXED);
}
