// Received frames become records.

#include <string.h>

#include <rte_prefetch.h>

#include "receive.h"
#include "transmit.h"

// Whether an mbuf of the queue carries a buffer, in which its bytes lie, and nobody else has it.
static inline bool is_lent(struct rte_mbuf *mbuf)
{
    const struct buffer *buffer = buffer_of(mbuf);
    if (unlikely(buffer->kind == 0 || rte_mbuf_refcnt_read(mbuf) != 1))
        return false;
    uint64_t offset = rte_pktmbuf_mtod(mbuf, uint64_t) - buffer->addr;
    return offset <= buffer->len && mbuf->data_len <= buffer->len - offset;
}

// Whether the mbuf was made elsewhere, or the driver has attached memory of its own to it.
static inline bool is_foreign(const struct mr_receive *receive, const struct rte_mbuf *mbuf)
{
    return mbuf->pool != receive->pool.mempool || !RTE_MBUF_DIRECT(mbuf);
}

static inline struct mr_frame record(const struct buffer *buffer, uint64_t addr, uint16_t len, uint16_t flags)
{
    flags |= buffer->kind == MR_OWN ? MR_IS_OWN : 0;
    return (struct mr_frame){.addr = addr, .id = buffer->id, .len = len, .flags = flags};
}

// The buffer is the caller's; the mbuf goes back without it.
static inline void pass_on(struct mr_receive *receive, struct rte_mbuf *mbuf, struct mr_frame *frame, uint16_t flags)
{
    struct buffer *buffer = buffer_of(mbuf);
    *frame = record(buffer, rte_pktmbuf_mtod(mbuf, uint64_t), mbuf->data_len, flags);
    add32(&lent_of(receive, buffer->kind)->out, -1);
    buffer->kind = 0;
    mbuf->next = NULL;
    mbuf->nb_segs = 1;
    receive->pool.mbufs[receive->pool.count++] = mbuf;
}

// Frees mbufs, each by its `next`.
static void release(struct rte_mbuf *mbuf)
{
    for (struct rte_mbuf *next; mbuf != NULL; mbuf = next) {
        next = mbuf->next;
        if (!transmit_return(mbuf))
            rte_pktmbuf_free_seg(mbuf);
    }
}

// The bytes are copied to a buffer of the switch's own.
static void copy(struct mr_receive *receive, struct rte_mbuf *mbuf, struct mr_frame *frame, uint16_t flags)
{
    struct buffer buffer = stash_last(&receive->own.waiting);
    uint64_t to = buffer.addr + buffer.start;
    memcpy((void *)to, rte_pktmbuf_mtod(mbuf, const void *), mbuf->data_len);
    *frame = record(&buffer, to, mbuf->data_len, flags);
    add32(&receive->own.out, -1);
}

// Checks all pieces of a frame.
static bool is_whole(const struct mr_receive *receive, struct rte_mbuf *frame)
{
    const struct stash *own = &receive->own.waiting;
    uint32_t copies = 0, pieces = 0;
    for (struct rte_mbuf *mbuf = frame; mbuf != NULL; mbuf = mbuf->next) {
        pieces++;
        if (!is_foreign(receive, mbuf)) {
            if (!is_lent(mbuf))
                return false;
            continue;
        }
        // It will be copied to this one.
        const struct buffer *to = &own->all[(own->first + own->count - 1 - copies) & own->mask];
        if (copies++ == own->count || mbuf->data_len > to->len - to->start)
            return false;
    }
    return pieces == frame->nb_segs;
}

// Returns the number of records, 0 if the frame is dropped.
static uint32_t pieces(struct mr_receive *receive, struct rte_mbuf *frame, struct mr_frame *frames)
{
    if (!is_whole(receive, frame)) {
        add(&receive->counts.dropped, 1);
        release(frame);
        return 0;
    }
    uint32_t done = 0;
    // They are freed last, as they may bring buffers back that `is_whole` has not seen.
    struct rte_mbuf *copied = NULL;
    for (struct rte_mbuf *mbuf = frame, *next; mbuf != NULL; mbuf = next, done++) {
        next = mbuf->next;
        uint16_t more = next != NULL ? MR_MORE : 0;
        if (is_foreign(receive, mbuf)) {
            copy(receive, mbuf, &frames[done], more);
            mbuf->next = copied;
            copied = mbuf;
        } else {
            pass_on(receive, mbuf, &frames[done], more);
        }
    }
    release(copied);
    return done;
}

static inline uint32_t deliver(struct mr_receive *receive, struct rte_mbuf *frame, struct mr_frame *frames)
{
    if (likely(frame->nb_segs == 1 && !is_foreign(receive, frame) && is_lent(frame))) {
        pass_on(receive, frame, frames, 0);
        return 1;
    }
    return pieces(receive, frame, frames);
}

static inline bool ask(struct mr_receive *receive, uint32_t most)
{
    receive->next = 0;
    receive->held = rte_eth_rx_burst(receive->port, receive->queue, receive->frames, (uint16_t)RTE_MIN(most, (uint32_t)BURST));
    for (uint16_t i = 0; i < RTE_MIN(receive->held, 4); i++)
        rte_prefetch0(receive->frames[i] + 1);
    return receive->held > 0;
}

// Asks the device for at most `most` frames. A frame for which the caller has no room waits for the next call, but for one that it
// never has room for.
uint32_t receive_burst(struct mr_receive *receive, struct mr_frame *frames, uint32_t room, uint32_t most)
{
    uint32_t done = 0;
    uint64_t received = 0;
    if (receive->next == receive->held) {
        if (!ask(receive, most))
            return 0;
        most -= receive->held;
    }
    for (;;) {
        struct rte_mbuf *frame = receive->frames[receive->next];
        if (unlikely(frame->nb_segs > room - done)) {
            if (done > 0)
                break;
            add(&receive->counts.dropped, 1);
            rte_pktmbuf_free(frame);
            receive->next++;
            break;
        }
        if (receive->next + 4 < receive->held)
            rte_prefetch0(receive->frames[receive->next + 4] + 1);
        receive->next++;
        uint32_t records = deliver(receive, frame, frames + done);
        received += records > 0;
        done += records;
        bool more = receive->next < receive->held;
        if (more)
            continue;
        // Fewer than it was asked for: there are no more.
        if (receive->held < BURST || room - done < BURST || most == 0 || !ask(receive, most))
            break;
        most -= receive->held;
    }
    add(&receive->counts.frames, received);
    return done;
}

void receive_flush(struct mr_receive *receive)
{
    while (receive->next < receive->held)
        rte_pktmbuf_free(receive->frames[receive->next++]);
}
