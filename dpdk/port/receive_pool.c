// The pool that a receive queue's device takes buffers from: those that were lent.

#include "receive.h"

// An mbuf that was freed twice has no buffer.
static int put(struct rte_mempool *mempool, void *const *objects, unsigned int count)
{
    struct mr_receive *receive = mempool->pool_data;
    for (unsigned int i = 0; i < count; i++) {
        struct rte_mbuf *mbuf = objects[i];
        struct buffer *buffer = buffer_of(mbuf);
        if (unlikely(buffer->kind == 0))
            continue;
        struct lent *lent = lent_of(receive, buffer->kind);
        bool is_known = regions_find(&receive->regions, buffer->addr);
        stash_put(is_known ? &lent->waiting : &lent->withdrawn, buffer);
        buffer->kind = 0;
        receive->pool.mbufs[receive->pool.count++] = mbuf;
    }
    return 0;
}

// Guests' buffers are first, in their order. All or nothing.
static int take(struct rte_mempool *mempool, void **objects, unsigned int count)
{
    struct mr_receive *receive = mempool->pool_data;
    struct pool *pool = &receive->pool;
    struct stash *guests = &receive->guest.waiting, *own = &receive->own.waiting;
    unsigned int of_guests = RTE_MIN(count, guests->count);
    if (unlikely(count > pool->count || count - of_guests > own->count)) {
        add(&receive->counts.no_buffer, 1);
        return -ENOBUFS;
    }
    for (unsigned int i = 0; i < count; i++) {
        struct rte_mbuf *mbuf = pool->mbufs[--pool->count];
        struct buffer *buffer = buffer_of(mbuf);
        *buffer = i < of_guests ? stash_first(guests) : stash_last(own);
        // Drivers put a frame behind headroom, which may begin before the buffer.
        uint32_t len = RTE_PKTMBUF_HEADROOM + buffer->len - buffer->start;
        mbuf->buf_addr = (void *)(buffer->addr + buffer->start - RTE_PKTMBUF_HEADROOM);
        rte_mbuf_iova_set(mbuf, buffer->iova + buffer->start - RTE_PKTMBUF_HEADROOM);
        mbuf->buf_len = (uint16_t)RTE_MIN(len, (uint32_t)UINT16_MAX);
        mbuf->data_off = RTE_PKTMBUF_HEADROOM;
        mbuf->ol_flags = 0;
        objects[i] = mbuf;
    }
    return 0;
}

static unsigned int available(const struct rte_mempool *mempool)
{
    const struct mr_receive *receive = mempool->pool_data;
    return receive->pool.count;
}

int receive_pool_register(void)
{
    int number = pool_register(RECEIVE_OPS, put, take, available);
    return number < 0 ? number : 0;
}
