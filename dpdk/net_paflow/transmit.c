// Sending: packets of a burst to one next hop become one frame. Nothing waits for a later burst.

#include <rte_ethdev.h>

#include "net_paflow.h"

static void look(struct transmit_queue *queue, struct rte_mbuf **packets, uint16_t count)
{
    for (uint16_t i = 0; i < count; i++) {
        queue->packets[i] = (struct paflow_packet){
            .bytes = rte_pktmbuf_mtod(packets[i], const uint8_t *),
            .there = rte_pktmbuf_data_len(packets[i]),
            .length = rte_pktmbuf_pkt_len(packets[i]),
        };
    }
}

// Copies packets in several buffers that are behind routers into one each: unjoined they may not leave. Returns true if there was one;
// those that no buffer holds stay too long.
static bool gather(struct transmit_queue *queue, uint16_t groups, struct rte_mbuf **packets)
{
    bool gathered = false;
    for (const struct paflow_group *group = queue->groups; group < queue->groups + groups; group++) {
        struct rte_mbuf **packet = &packets[queue->order[group->first]];
        if (likely(group->kind != PAFLOW_TOO_LONG) || (*packet)->nb_segs == 1)
            continue;
        struct rte_mbuf *whole = rte_pktmbuf_copy(*packet, queue->pool, 0, UINT32_MAX);
        if (whole == NULL || whole->nb_segs > 1) {
            rte_pktmbuf_free(whole);
            continue;
        }
        rte_pktmbuf_free(*packet);
        *packet = whole;
        gathered = true;
    }
    return gathered;
}

// Plans the burst. Returns the number of groups.
static uint16_t plan(struct transmit_queue *queue, struct rte_mbuf **packets, uint16_t count)
{
    look(queue, packets, count);
    return paflow_plan(queue->join, queue->rules, queue->packets, count, queue->order, queue->groups);
}

// Returns the frame of a group of a burst of `count` packets, or NULL if there is no buffer for it.
static struct rte_mbuf *join(struct transmit_queue *queue, const struct paflow_group *group, uint16_t count)
{
    struct rte_mbuf *frame = rte_pktmbuf_alloc(queue->pool);
    if (unlikely(frame == NULL))
        return NULL;
    size_t length = paflow_write(queue->rules, group, queue->packets, queue->order, count,
                                 rte_pktmbuf_mtod(frame, uint8_t *), rte_pktmbuf_tailroom(frame));
    if (unlikely(length == 0)) {
        rte_pktmbuf_free(frame);
        return NULL;
    }
    frame->data_len = (uint16_t)length;
    frame->pkt_len = (uint32_t)length;
    return frame;
}

// Drops the packets of a group, and takes them out of the burst.
static void drop(struct transmit_queue *queue, const struct paflow_group *group, struct rte_mbuf **packets)
{
    for (uint16_t i = group->first; i < group->first + group->count; i++) {
        struct rte_mbuf **packet = &packets[queue->order[i]];
        rte_pktmbuf_free(*packet);
        *packet = NULL;
    }
}

// Makes the frames of a burst that is planned in `groups` groups. Returns how many they are; drops packets that may not be sent, and
// takes them out of the burst.
static uint16_t make_frames(struct transmit_queue *queue, uint16_t groups, struct rte_mbuf **packets, uint16_t count)
{
    uint16_t frames = 0;
    for (const struct paflow_group *group = queue->groups; group < queue->groups + groups; group++) {
        if (unlikely(group->kind == PAFLOW_UNKNOWN_CHAIN)) {
            queue->counters.unknown_chain++;
            drop(queue, group, packets);
            continue;
        }
        if (unlikely(group->kind == PAFLOW_TOO_LONG)) {
            queue->counters.too_long++;
            drop(queue, group, packets);
            continue;
        }
        struct rte_mbuf *joined = group->kind == PAFLOW_JOINED ? join(queue, group, count) : NULL;
        if (joined != NULL) {
            queue->parts[frames] = (struct part){group->first, group->count, true};
            queue->frames[frames++] = joined;
            continue;
        }
        if (unlikely(group->only_joined)) {
            queue->counters.dropped_no_buffers += group->count;
            drop(queue, group, packets);
            continue;
        }
        if (group->kind == PAFLOW_JOINED)
            queue->counters.no_buffers += group->count;
        for (uint16_t i = group->first; i < group->first + group->count; i++) {
            queue->parts[frames] = (struct part){i, 1, false};
            queue->frames[frames++] = packets[queue->order[i]];
        }
    }
    return frames;
}

// Takes the packets of a frame that was sent out of the burst. The device below has those that are not joined.
static void leave(struct transmit_queue *queue, const struct part *part, struct rte_mbuf **packets)
{
    struct transmit_counters *counters = &queue->counters;
    for (uint16_t i = part->first; i < part->first + part->count; i++) {
        struct rte_mbuf **packet = &packets[queue->order[i]];
        counters->bytes += queue->packets[queue->order[i]].length;
        if (part->joined)
            rte_pktmbuf_free(*packet);
        *packet = NULL;
    }
    counters->packets += part->count;
    if (part->joined) {
        counters->aggregates++;
        counters->joined += part->count;
    }
}

// Moves the packets that are still there to the end of the burst, in their order. Returns how many are gone.
static uint16_t move_to_end(struct rte_mbuf **packets, uint16_t count)
{
    uint16_t to = count;
    for (uint16_t from = count; from-- > 0;) {
        if (packets[from] != NULL)
            packets[--to] = packets[from];
    }
    return to;
}

// Sends up to PAFLOW_BURST packets. Returns how many were taken; the others are at the end of the burst.
static uint16_t send_burst(struct transmit_queue *queue, struct rte_mbuf **packets, uint16_t count)
{
    uint16_t groups = plan(queue, packets, count);
    if (unlikely(gather(queue, groups, packets)))
        groups = plan(queue, packets, count);
    uint16_t made = make_frames(queue, groups, packets, count);
    uint16_t sent = rte_eth_tx_burst(queue->below, queue->number, queue->frames, made);
    queue->counters.frames += sent;
    for (uint16_t i = 0; i < sent; i++)
        leave(queue, &queue->parts[i], packets);
    if (likely(sent == made))
        return count;
    for (uint16_t i = sent; i < made; i++) {
        if (queue->parts[i].joined)
            rte_pktmbuf_free(queue->frames[i]);
    }
    return move_to_end(packets, count);
}

uint16_t transmit(void *argument, struct rte_mbuf **packets, uint16_t count)
{
    struct transmit_queue *queue = argument;
    uint16_t done = 0;
    while (done < count) {
        uint16_t now = RTE_MIN((uint16_t)(count - done), (uint16_t)PAFLOW_BURST), taken = send_burst(queue, packets + done, now);
        done += taken;
        if (taken < now)
            break;
    }
    return done;
}
