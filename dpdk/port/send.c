// Frames go to the device from where they lie.

#include "transmit.h"

// The longest frame that is to be cut: an IP packet of 65535 bytes, with VLAN tags.
#define LONGEST_MESSAGE (UINT16_MAX + RTE_ETHER_HDR_LEN + MOST_TAGS * RTE_VLAN_HLEN)

// Makes an mbuf of a record.
static inline struct rte_mbuf *piece(struct mr_transmit *transmit, const struct mr_frame *record, uint64_t iova)
{
    struct rte_mbuf *mbuf = transmit->pool.mbufs[--transmit->pool.count];
    *buffer_of(mbuf) = (struct buffer){.addr = record->addr, .id = record->id, .kind = MR_GUEST};
    mbuf->buf_addr = (void *)record->addr;
    rte_mbuf_iova_set(mbuf, iova);
    mbuf->buf_len = record->len;
    mbuf->data_len = record->len;
    // Drivers that write before a frame do so only if there is headroom.
    mbuf->data_off = 0;
    mbuf->nb_segs = 1;
    mbuf->ol_flags = 0;
    return mbuf;
}

// Takes back mbufs that the device was not given, or has not taken.
static void undo(struct mr_transmit *transmit, struct rte_mbuf *frame)
{
    for (struct rte_mbuf *next; frame != NULL; frame = next) {
        next = frame->next;
        frame->next = NULL;
        frame->nb_segs = 1;
        buffer_of(frame)->kind = 0;
        transmit->pool.mbufs[transmit->pool.count++] = frame;
    }
}

// Tells the device of the work on a frame. Returns whether it does it: most drivers then have their own sums of pseudo-headers written
// to the frame.
static bool leave(struct mr_transmit *transmit, struct rte_mbuf *frame, const struct mr_work *work)
{
    frame->l2_len = work->link;
    frame->l3_len = work->network;
    frame->l4_len = work->transport;
    frame->tso_segsz = work->segment;
    frame->ol_flags = work->is_v6 ? RTE_MBUF_F_TX_IPV6 : RTE_MBUF_F_TX_IPV4;
    if (work->segment == 0)
        frame->ol_flags |= work->is_udp ? RTE_MBUF_F_TX_UDP_CKSUM : RTE_MBUF_F_TX_TCP_CKSUM;
    else
        frame->ol_flags |= RTE_MBUF_F_TX_TCP_SEG | (work->is_v6 ? 0 : transmit->header);
    return rte_eth_tx_prepare(transmit->port, transmit->queue, &frame, 1) == 1;
}

// Returns whether the device takes a frame of so many bytes and pieces.
static __rte_always_inline bool takes(const struct mr_transmit *transmit, uint32_t len, uint32_t pieces, const struct mr_work *work)
{
    if (work == NULL || work->segment == 0)
        return len >= transmit->shortest && len <= transmit->longest && pieces <= transmit->pieces;
    uint32_t segment = (uint32_t)work->link + work->network + work->transport + work->segment;
    return len > segment && len <= LONGEST_MESSAGE && segment <= transmit->longest && pieces <= transmit->message;
}

// Makes mbufs of the records of a frame, with work if that is not NULL. Returns NULL if the device can't take it.
static __rte_always_inline struct rte_mbuf *frame_of(struct mr_transmit *transmit, const struct mr_frame *records, uint32_t count,
                                                     const struct mr_work *work)
{
    struct rte_mbuf *first = NULL, **end = &first;
    uint32_t len = 0, made = 0;
    for (; made < count; made++) {
        uint64_t iova;
        if (records[made].len == 0 || !regions_translate(&transmit->regions, records[made].addr, records[made].len, &iova))
            break;
        *end = piece(transmit, &records[made], iova);
        end = &(*end)->next;
        len += records[made].len;
    }
    *end = NULL;
    if (made < count || !takes(transmit, len, count, work)) {
        undo(transmit, first);
        return NULL;
    }
    first->nb_segs = (uint16_t)count;
    first->pkt_len = len;
    first->tx_offload = 0;
    if (work != NULL && !leave(transmit, first, work)) {
        undo(transmit, first);
        return NULL;
    }
    return first;
}

// Returns the number of records of the first frame, 0 if they are not all there.
static inline uint32_t records_of(const struct mr_frame *records, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!(records[i].flags & MR_MORE))
            return i + 1;
    return 0;
}

// Frames that were made, for the device to take.
struct batch {
    uint32_t count;
    struct rte_mbuf *frames[BURST];
    // Records up to the end of each.
    uint32_t ends[BURST];
};

// Gives the frames to the device. Returns whether it took all of them, and in `taken` how many records were taken so far.
static inline bool flush(struct mr_transmit *transmit, struct batch *batch, uint32_t *taken)
{
    if (batch->count == 0)
        return true;
    uint16_t sent = rte_eth_tx_burst(transmit->port, transmit->queue, batch->frames, (uint16_t)batch->count);
    for (uint32_t i = sent; i < batch->count; i++)
        undo(transmit, batch->frames[i]);
    if (sent > 0)
        *taken = batch->ends[sent - 1];
    add(&transmit->counts.frames, sent);
    bool all = sent == batch->count;
    batch->count = 0;
    return all;
}

// Finishes the records of a frame that the device can't take.
static void refuse(struct mr_transmit *transmit, const struct mr_frame *records, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        transmit_finish(transmit, records[i].id);
    add(&transmit->counts.dropped, 1);
}

// Sends frames; `work` is NULL if none of them leaves any.
static __rte_always_inline uint32_t send_all(struct mr_transmit *transmit, const struct mr_frame *frames, uint32_t count,
                                             const struct mr_work *work)
{
    struct batch batch;
    batch.count = 0;
    uint32_t taken = 0, at = 0, capacity = transmit->mask + 1;
    transmit_drain(transmit);
    while (at < count) {
        uint32_t records = records_of(frames + at, count - at);
        if (records == 0 || records > capacity - transmit->out - at)
            break;
        const struct mr_work *its = work != NULL && frames[at].flags & MR_WORK ? work++ : NULL;
        struct rte_mbuf *frame = frame_of(transmit, frames + at, records, its);
        if (unlikely(frame == NULL)) {
            if (!flush(transmit, &batch, &taken))
                goto end;
            refuse(transmit, frames + at, records);
            taken = at += records;
            continue;
        }
        batch.frames[batch.count] = frame;
        batch.ends[batch.count++] = at += records;
        if (batch.count == BURST && !flush(transmit, &batch, &taken))
            goto end;
    }
    flush(transmit, &batch, &taken);
end:
    add32(&transmit->out, taken);
    return taken;
}

uint32_t transmit_send(struct mr_transmit *transmit, const struct mr_frame *frames, uint32_t count)
{
    return send_all(transmit, frames, count, NULL);
}

uint32_t transmit_send_work(struct mr_transmit *transmit, const struct mr_frame *frames, uint32_t count, const struct mr_work *work)
{
    return send_all(transmit, frames, count, work);
}

uint32_t transmit_done(struct mr_transmit *transmit, uint32_t *ids, uint32_t room)
{
    transmit_drain(transmit);
    uint32_t done = RTE_MIN(room, transmit->done);
    for (uint32_t i = 0; i < done; i++)
        ids[i] = transmit->ids[transmit->first++ & transmit->mask];
    transmit->done -= done;
    add32(&transmit->out, -done);
    return done;
}

bool transmit_clean(struct mr_transmit *transmit)
{
    return rte_eth_tx_done_cleanup(transmit->port, transmit->queue, 0) != -ENOTSUP;
}
