// Pools of mbufs without memory for frames: their operations bring that.

#include <stdlib.h>
#include <sys/mman.h>

#include <rte_errno.h>

#include "internal.h"

static void unmap(struct rte_mempool_memhdr *chunk, void *opaque)
{
    (void)opaque;
    munmap(chunk->addr, chunk->len);
}

// Mbufs stand in one chunk of memory, which devices do not reach.
static int populate(struct rte_mempool *mempool, uint32_t size)
{
    size_t each = mempool->header_size + mempool->elt_size + mempool->trailer_size;
    size_t len = RTE_ALIGN(size * each + RTE_CACHE_LINE_SIZE, 4096);
    void *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        return -errno;
    int count = rte_mempool_populate_iova(mempool, memory, RTE_BAD_IOVA, len, unmap, NULL);
    if (count < 0)
        munmap(memory, len);
    return count < 0 ? count : (uint32_t)count < size ? -ENOMEM : 0;
}

int pool_open(struct pool *pool, const char *ops, void *owner, uint32_t size, uint32_t room, char *error)
{
    static unsigned int number;
    char name[RTE_MEMPOOL_NAMESIZE];
    snprintf(name, sizeof name, "millrace_%u", number++);
    struct rte_pktmbuf_pool_private about = {
        .mbuf_data_room_size = (uint16_t)RTE_MIN(RTE_PKTMBUF_HEADROOM + room, (uint32_t)UINT16_MAX),
        .mbuf_priv_size = RTE_ALIGN(sizeof(struct buffer), RTE_MBUF_PRIV_ALIGN),
    };
    *pool = (struct pool){.mbufs = calloc(size, sizeof *pool->mbufs), .size = size};
    // Without a cache: some drivers take from that what it has, and do not ask the pool.
    pool->mempool = rte_mempool_create_empty(name, size, sizeof(struct rte_mbuf) + about.mbuf_priv_size, 0, sizeof about, SOCKET_ID_ANY,
                                             RTE_MEMPOOL_F_NO_IOVA_CONTIG);
    int failed = pool->mempool == NULL ? -rte_errno : pool->mbufs == NULL ? -ENOMEM : 0;
    if (failed == 0)
        failed = rte_mempool_set_ops_byname(pool->mempool, ops, owner);
    if (failed == 0) {
        rte_pktmbuf_pool_init(pool->mempool, &about);
        failed = populate(pool->mempool, size);
    }
    if (failed) {
        pool_close(pool);
        return fail(error, failed, "DPDK has no memory for a pool of %u buffers: %s; give it more", size, rte_strerror(-failed));
    }
    rte_mempool_obj_iter(pool->mempool, rte_pktmbuf_init, NULL);
    pool->is_full = true;
    return 0;
}

void pool_close(struct pool *pool)
{
    rte_mempool_free(pool->mempool);
    free(pool->mbufs);
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
    rte_mempool_obj_iter(pool->mempool, look, &search);
    return search.found;
}
