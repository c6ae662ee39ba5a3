// The pool that a transmit queue's mbufs go back to: this ends the sending of a frame.

#include "transmit.h"

static int number_of_ops = -1;

void transmit_finish(struct mr_transmit *transmit, uint32_t id)
{
    transmit->ids[(transmit->first + transmit->done++) & transmit->mask] = id;
}

static inline void put_one(struct mr_transmit *transmit, struct rte_mbuf *mbuf)
{
    struct buffer *buffer = buffer_of(mbuf);
    if (unlikely(buffer->kind == 0))
        return;
    transmit_finish(transmit, buffer->id);
    buffer->kind = 0;
    transmit->pool.mbufs[transmit->pool.count++] = mbuf;
}

// An mbuf that was freed twice has no frame.
static int put(struct rte_mempool *mempool, void *const *objects, unsigned int count)
{
    for (unsigned int i = 0; i < count; i++)
        put_one(mempool->pool_data, objects[i]);
    return 0;
}

// Mbufs are taken by `transmit_send` only.
static int take(struct rte_mempool *mempool, void **objects, unsigned int count)
{
    (void)mempool;
    (void)objects;
    (void)count;
    return -ENOBUFS;
}

static unsigned int available(const struct rte_mempool *mempool)
{
    const struct mr_transmit *transmit = mempool->pool_data;
    return transmit->pool.count;
}

int transmit_pool_register(void)
{
    number_of_ops = pool_register(TRANSMIT_OPS, put, take, available);
    return number_of_ops < 0 ? number_of_ops : 0;
}

bool transmit_return(struct rte_mbuf *mbuf)
{
    if (mbuf->pool->ops_index != number_of_ops)
        return false;
    struct mr_transmit *transmit = mbuf->pool->pool_data;
    mbuf->nb_segs = 1;
    mbuf->next = __atomic_load_n(&transmit->returned, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&transmit->returned, &mbuf->next, mbuf, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return true;
}

void transmit_drain(struct mr_transmit *transmit)
{
    if (likely(__atomic_load_n(&transmit->returned, __ATOMIC_RELAXED) == NULL))
        return;
    struct rte_mbuf *mbuf = __atomic_exchange_n(&transmit->returned, NULL, __ATOMIC_ACQUIRE), *oldest = NULL;
    // The last one that was freed is first.
    for (struct rte_mbuf *next; mbuf != NULL; mbuf = next) {
        next = mbuf->next;
        mbuf->next = oldest;
        oldest = mbuf;
    }
    for (struct rte_mbuf *next; oldest != NULL; oldest = next) {
        next = oldest->next;
        oldest->next = NULL;
        put_one(transmit, oldest);
    }
}
