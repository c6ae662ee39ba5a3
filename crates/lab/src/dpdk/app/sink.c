#include "sink.h"

#include "payload.h"

#include <rte_prefetch.h>

// Packets that are fetched ahead of the one that is read.
#define AHEAD 4u

void sink_start(struct sink *sink, const struct port *port, uint8_t flow, enum touch touch)
{
    sink->port = port;
    sink->flow = flow;
    sink->touch = touch;
    sink->expected = template_between(peer_of(port->number), port->number);
}

// Reports whether a packet is as it was sent, as far as it is to be read.
static inline bool is_unchanged(struct sink *sink, const uint8_t *bytes, uint16_t length, const struct stamp *stamp)
{
    if (sink->touch == TOUCH_NONE)
        return true;
    if (length < SHORTEST || length > LONGEST)
        return false;
    if (memcmp(bytes, template_for(&sink->expected, length), sizeof(struct headers)))
        return false;
    const size_t before = sizeof(struct headers) + sizeof *stamp;
    return sink->touch != TOUCH_FULL || payload_sum(bytes + before, (uint16_t)(length - before)) == stamp->sum;
}

bool sink_take(struct sink *sink, const struct rte_mbuf *frame, uint64_t now)
{
    const uint8_t *bytes = rte_pktmbuf_mtod(frame, const uint8_t *);
    struct stamp stamp;
    // Each frame fits into one buffer, unless a switch cuts it without need.
    uint16_t length = frame->data_len;
    if (length < sizeof(struct headers) + sizeof stamp ||
        !stamp_read(&stamp, bytes + sizeof(struct headers), sink->flow))
        return false;
    sink->heard = true;
    sink->phase = RTE_MAX(sink->phase, (enum phase)stamp.phase);
    bool changed = frame->nb_segs > 1 || !is_unchanged(sink, bytes, length, &stamp);
    // The number of a changed packet may be wrong.
    enum order order = changed ? IN_ORDER : sequence_note(&sink->sequence, stamp.number);
    if (stamp.phase != MEASURED)
        return true;
    struct received *received = &sink->received;
    if (order == DUPLICATE) {
        received->duplicates++;
        return true;
    }
    received->packets++;
    received->bytes += frame->pkt_len;
    received->reordered += order == REORDERED;
    received->changed += changed;
    // Counters of two processors may differ by a few cycles.
    histogram_note(&sink->times, now > stamp.time ? now - stamp.time : 0);
    return true;
}

bool sink_turn(struct sink *sink, struct loop *loop)
{
    struct rte_mbuf *burst[MAX_BURST];
    unsigned count = rte_eth_rx_burst(sink->port->id, 0, burst, RTE_MAX(loop->options->burst, 32));
    if (count == 0)
        return false;
    loop_tick(loop);
    sink->last = loop_running(loop);
    for (unsigned at = 0; at < RTE_MIN(count, AHEAD); at++)
        rte_prefetch0(rte_pktmbuf_mtod(burst[at], void *));
    for (unsigned at = 0; at < count; at++) {
        if (at + AHEAD < count)
            rte_prefetch0(rte_pktmbuf_mtod(burst[at + AHEAD], void *));
        sink_take(sink, burst[at], loop->tally.now);
    }
    rte_pktmbuf_free_bulk(burst, count);
    return true;
}
