// Looks for memory as drivers do that register it: among the chunks of pools that have all of their mbufs.

#include <string.h>

#include <rte_mempool.h>

struct search {
    const char *ops;
    uint64_t addr, len;
    int found;
};

static void look(struct rte_mempool *pool, void *argument, struct rte_mempool_memhdr *chunk, unsigned int number)
{
    (void)pool;
    (void)number;
    struct search *search = argument;
    uint64_t offset = search->addr - (uint64_t)chunk->addr;
    search->found += offset <= chunk->len && search->len <= chunk->len - offset;
}

static void walk(struct rte_mempool *pool, void *argument)
{
    const struct search *search = argument;
    bool is_of_queue = strcmp(rte_mempool_get_ops(pool->ops_index)->name, search->ops) == 0;
    if (is_of_queue && pool->populated_size == pool->size && !(pool->flags & RTE_MEMPOOL_F_NON_IO))
        rte_mempool_mem_iter(pool, look, argument);
}

// Returns the number of pools of these operations that have the bytes.
int pools_with(const char *ops, uint64_t addr, uint64_t len)
{
    struct search search = {.ops = ops, .addr = addr, .len = len};
    rte_mempool_walk(walk, &search);
    return search.found;
}
