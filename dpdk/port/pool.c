// Pools of mbufs without memory for frames: their operations bring that.

#include <stdlib.h>
#include <sys/mman.h>

#include <rte_errno.h>

#include "receive.h"
#include "transmit.h"

static int begin(struct rte_mempool *mempool)
{
    const struct pool *pool = mempool->pool_config;
    mempool->pool_data = pool->owner;
    return 0;
}

// The owner closes the pool.
static void end(struct rte_mempool *mempool)
{
    (void)mempool;
}

// Makes mbufs for a chunk of memory, always in the same place: one for each chunk that drivers are to find, as no chunk is without, and
// the others for that in which they stand.
static int make(struct rte_mempool *mempool, unsigned int most, void *addr, rte_iova_t iova, size_t len,
                rte_mempool_populate_obj_cb_t *add, void *argument)
{
    (void)iova;
    (void)len;
    struct pool *pool = mempool->pool_config;
    unsigned int count = addr == pool->memory ? most : 1;
    for (unsigned int i = 0; i < count; i++) {
        void *mbuf = pool->next + mempool->header_size;
        pool->next += mempool->header_size + mempool->elt_size + mempool->trailer_size;
        add(mempool, argument, mbuf, RTE_BAD_IOVA);
        pool->mbufs[pool->count++] = mbuf;
    }
    return (int)count;
}

int pool_register(const char *name, rte_mempool_enqueue_t put, rte_mempool_dequeue_t take, rte_mempool_get_count available)
{
    struct rte_mempool_ops ops = {
        .alloc = begin, .free = end, .enqueue = put, .dequeue = take, .get_count = available, .populate = make};
    snprintf(ops.name, sizeof ops.name, "%s", name);
    return rte_mempool_register_ops(&ops);
}

// The mbufs' own chunk, which devices do not reach, is the last: drivers hear of a pool when it has all of its mbufs.
static int populate(struct pool *pool, const struct regions *known)
{
    struct rte_mempool *mempool = pool->mempool;
    size_t len = RTE_ALIGN(pool->size * (size_t)(mempool->header_size + mempool->elt_size + mempool->trailer_size), 4096);
    void *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        return -errno;
    pool->memory = pool->next = memory;
    pool->len = len;
    int count = 1;
    for (uint32_t i = 0; known != NULL && i < known->count && count > 0; i++) {
        const struct mr_region *region = &known->all[i];
        // Such drivers use addresses of this process.
        count = rte_mempool_populate_iova(mempool, (char *)region->addr, region->addr, region->len, NULL, NULL);
    }
    if (count > 0)
        count = rte_mempool_populate_iova(mempool, memory, RTE_BAD_IOVA, len, NULL, NULL);
    return count < 0 ? count : count == 0 ? -ENOMEM : 0;
}

int pool_open(struct pool *pool, const char *ops, void *owner, uint32_t size, uint32_t room, const struct regions *known, char *error)
{
    static unsigned int number;
    char name[RTE_MEMPOOL_NAMESIZE];
    snprintf(name, sizeof name, "millrace_%u", number++);
    struct rte_pktmbuf_pool_private about = {
        .mbuf_data_room_size = (uint16_t)RTE_MIN(RTE_PKTMBUF_HEADROOM + room, (uint32_t)UINT16_MAX),
        .mbuf_priv_size = RTE_ALIGN(sizeof(struct buffer), RTE_MBUF_PRIV_ALIGN),
    };
    *pool = (struct pool){.owner = owner, .mbufs = calloc(size, sizeof *pool->mbufs), .size = size};
    // Without a cache: some drivers take from that what it has, and do not ask the pool.
    pool->mempool = rte_mempool_create_empty(name, size, sizeof(struct rte_mbuf) + about.mbuf_priv_size, 0, sizeof about, SOCKET_ID_ANY, 0);
    int failed = pool->mempool == NULL ? -rte_errno : pool->mbufs == NULL ? -ENOMEM : 0;
    if (failed == 0)
        failed = rte_mempool_set_ops_byname(pool->mempool, ops, pool);
    if (failed == 0) {
        rte_pktmbuf_pool_init(pool->mempool, &about);
        failed = populate(pool, known);
    }
    if (failed) {
        pool_close(pool);
        return fail(error, failed, "DPDK has no memory for a pool of %u buffers: %s; give it more", size, rte_strerror(-failed));
    }
    rte_mempool_obj_iter(pool->mempool, rte_pktmbuf_init, NULL);
    return 0;
}

// A pool that is freed takes its mbufs back: it does so from a queue that has none.
void pool_close(struct pool *pool)
{
    static union {
        struct mr_receive receive;
        struct mr_transmit transmit;
    } nobody;
    if (pool->mempool != NULL)
        pool->mempool->pool_data = &nobody;
    rte_mempool_free(pool->mempool);
    free(pool->mbufs);
    if (pool->memory != NULL)
        munmap(pool->memory, pool->len);
}

struct search {
    const struct mr_region *region;
    uint32_t found;
};

static void look(struct rte_mempool *mempool, void *argument, void *object, unsigned int number)
{
    (void)mempool;
    (void)number;
    struct search *search = argument;
    const struct buffer *buffer = buffer_of(object);
    search->found += buffer->kind != 0 && region_has(search->region, buffer->addr);
}

uint32_t pool_within(const struct pool *pool, const struct mr_region *region)
{
    struct search search = {.region = region};
    if (pool->mempool != NULL)
        rte_mempool_obj_iter(pool->mempool, look, &search);
    return search.found;
}
